module github.com/kopf-go/kopf/e2e

go 1.26.0

require github.com/kopf-go/kopf v0.0.0

replace github.com/kopf-go/kopf => ../
