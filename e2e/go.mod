module github.com/kopf-go/kopf/e2e

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/kopf-go/kopf v0.0.0
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/yaml v1.6.0
)

require (
	go.yaml.in/yaml/v2 v2.4.3 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
)

replace github.com/kopf-go/kopf => ../
