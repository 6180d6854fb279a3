package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// someServer has the core group without kinds, and a group that is down.
type someServer struct{ reads int }

func (s *someServer) Get(_ context.Context, path, _ string, into any) error {
	switch path {
	case "/api":
		s.reads++
		return json.Unmarshal([]byte(`{"kind": "APIVersions", "versions": ["v1"]}`), into)
	case "/apis":
		return json.Unmarshal([]byte(`{"kind": "APIGroupList", "groups": [{"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1", "version": "v1"}]}]}`), into)
	}
	return nil
}

func (s *someServer) GetVersion(context.Context, string, any) (unavailable, err error) {
	return errors.New("down"), nil
}

func TestKinds(t *testing.T) {
	ctx, s := context.Background(), &someServer{}
	var k Kinds
	k.Set(some)
	if r, err := k.Resolve(ctx, s, "metrics.k8s.io/v1", "PodMetrics"); err != nil || r.Name() != "pods.v1.metrics.k8s.io" || s.reads != 0 {
		t.Errorf("got %v, %v after %d readings", r, err, s.reads)
	}
	if r, err := k.Preferred(ctx, s, "metrics.k8s.io", "PodMetrics"); err != nil || r == nil || r.Version != "v1beta1" {
		t.Errorf("the preferred one is %v, %v", r, err)
	}
	k.Forget("v1", "ConfigMap")
	if r, err := k.Resolve(ctx, s, "v1", "Pod"); err != nil || r.Plural != "pods" || s.reads != 0 {
		t.Errorf("another kind is forgotten: %v, %v", r, err)
	}
	if _, err := k.Resolve(ctx, s, "v1", "ConfigMap"); err == nil || s.reads != 1 {
		t.Errorf("got %v after %d readings", err, s.reads)
	}
	const want = `look up the kind "PodMetrics" in metrics.k8s.io/v1: down`
	if _, err := k.Resolve(ctx, s, "metrics.k8s.io/v1", "PodMetrics"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if r, err := k.Preferred(ctx, s, "metrics.k8s.io", "PodMetrics"); r != nil || err == nil || err.Error() != "look up the kind PodMetrics.metrics.k8s.io: down" {
		t.Errorf("got %v, %v", r, err)
	}
	if r, err := k.Preferred(ctx, s, "", "Pod"); r != nil || err != nil {
		t.Errorf("got %v, %v for a kind that is not there", r, err)
	}
}

func TestAdded(t *testing.T) {
	newer := Resource{Version: "v2", Plural: "pods", Kind: "Pod", Preferred: true}
	other := Resource{Group: "kopf.dev", Version: "v1", Plural: "kopfexamples", Kind: "KopfExample", Preferred: true}
	got := Added(some[:1], []Resource{{Version: "v1", Plural: "pods", Kind: "Other"}, newer, other})
	newer.Preferred = false // the known one is
	if diff := cmp.Diff([]Resource{some[0], newer, other}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestWithFormer reads a group again, one version of which is out of order.
func TestWithFormer(t *testing.T) {
	v1 := Resource{Group: "extension.dev", Version: "v1", Plural: "things", Preferred: true}
	v2 := Resource{Group: "extension.dev", Version: "v2", Plural: "things"}
	other := Resource{Group: "other.dev", Version: "v1", Plural: "things", Preferred: true}
	preferred := v2
	preferred.Preferred = true
	notPreferred := v1
	notPreferred.Preferred = false
	for name, tt := range map[string]struct {
		broken      []string
		found, want []Resource
	}{
		"all versions":                  {[]string{"v1", "v2"}, nil, []Resource{v1, v2}},
		"the version that is preferred": {[]string{"v1"}, []Resource{v2}, []Resource{v2, v1}},
		"the other version":             {[]string{"v2"}, []Resource{v1}, []Resource{v1, v2}},
		"the former preferred version":  {[]string{"v1"}, []Resource{preferred}, []Resource{preferred, notPreferred}},
		"none, because all are found":   {[]string{"v1", "v2"}, []Resource{v1, v2}, []Resource{v1, v2}},
		"gone from the other version":   {[]string{"v2"}, nil, []Resource{v2}},
	} {
		broken := map[string]error{"extension.dev": &brokenGroup{errors.New("out of order"), tt.broken}}
		if diff := cmp.Diff(tt.want, WithFormer(tt.found, []Resource{v1, v2, other}, broken)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
