package types

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		typ, object, want string
		unknown           []string
	}{
		{"PodSpec", `{}`, `{"containers": null}`, nil},
		{"Container", `{"command": [], "env": [{"name": "a", "vlaue": "b"}, null], "stdin": false, "tty": true}`,
			`{"name": "", "resources": {}, "env": [{"name": "a"}, {"name": ""}], "tty": true}`, []string{"env[0].vlaue"}},
		{"DeploymentSpec", `{"replicas": 0, "minReadySeconds": 0, "paused": false, "selector": null}`,
			`{"replicas": 0, "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}}`, nil},
		{"ResourceRequirements", `{"limits": {"cpu": 0.5, "memory": "1024Mi", "pods": null}, "requests": {}}`, `{"limits": {"cpu": "500m", "memory": "1Gi", "pods": "0"}}`, nil},
		{"LeaseSpec", `{"renewTime": "2026-01-02T05:04:05.000006+02:00"}`, `{"renewTime": "2026-01-02T03:04:05.000006Z"}`, nil},
		{"ObjectMeta", `{"creationTimestamp": null, "name": "a", "nam": 1, "managedFields": []}`, `{"name": "a", "managedFields": []}`, []string{"nam"}},
		{"ServicePort", `{"port": 80}`, `{"port": 80, "targetPort": 0}`, nil},
		{"Secret", `{"data": {"a": "eA\n=="}, "type": ""}`, `{"metadata": {}, "data": {"a": "eA=="}}`, nil},
		{"JSONSchemaProps", `{"items": {"tpye": 1}, "additionalProperties": true, "default": {"a": {}}}`, `{"items": {}, "additionalProperties": true, "default": {"a": {}}}`, []string{"items.tpye"}},
	} {
		object := rawjson.Map([]byte(tt.object))
		unknown := Named(tt.typ).Decode(object)
		if diff := cmp.Diff(rawjson.Map([]byte(tt.want)), object); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.typ, tt.object, diff)
		}
		if diff := cmp.Diff(tt.unknown, unknown); diff != "" {
			t.Errorf("the unknown fields of %s %s (-want +got):\n%s", tt.typ, tt.object, diff)
		}
		again := rawjson.Map([]byte(tt.want))
		if Named(tt.typ).Decode(again); !cmp.Equal(object, again) {
			t.Errorf("%s %s decoded twice: %s", tt.typ, tt.object, cmp.Diff(object, again))
		}
	}
}

func TestDecodeError(t *testing.T) {
	for _, tt := range []struct{ typ, object, want string }{
		{"LeaseSpec", `{"renewTime": "2026-01-02T03:04:05Z"}`, `parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"`},
		{"DeploymentSpec", `{"replicas": 99999999999}`, `json: cannot unmarshal number 99999999999 into Go struct field DeploymentSpec.replicas of type int32`},
		{"ServicePort", `{"targetPort": 1.5}`, `json: cannot unmarshal number 1.5 into Go struct field ServicePort.targetPort of type int32`},
		{"ResourceRequirements", `{"limits": {"cpu": "1x"}}`, `quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`},
		{"ServicePort", `{"targetPort": "http", "port": 1}`, ``},
	} {
		if got := DecodeError(Named(tt.typ).Schema, rawjson.Map([]byte(tt.object)), tt.typ); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.typ, tt.object, got, tt.want)
		}
	}
}
