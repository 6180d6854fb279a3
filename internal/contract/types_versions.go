package contract

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/kopf-go/kopf"
)

// This suite proves what happens to a kind whose struct gets another version, while the CRD in the
// cluster still lists the former one as stored.

var _ = Suite("types_versions", func(t *testing.T, c *C) {
	c.Run(t, "TD-T8 a version that may still be stored is not removed, and the error names it and the way out", func(c *C) {
		rel := &releases{C: c, group: c.Unique("types.example.com")}
		rel.run("v1beta1", "a")
		err := rel.refused("v1")
		c.wants("the error", err.Error(), "install the definition sites."+rel.group, "status.storedVersions", "v1beta1 was previously a storage version",
			"storage migration", "removes v1beta1 from status.storedVersions")
		if kopf.StatusCode(err) != http.StatusUnprocessableEntity {
			c.Errorf("got the code %d", kopf.StatusCode(err))
		}
		crd := c.definitions().Get("sites." + rel.group)
		c.same("the stored versions", []any{"v1beta1"}, crd.Status().Get("storedVersions"))
		if status, _, _ := condition(crd, "Established"); status != "True" {
			c.Error("the definition is not established any more")
		}
		if got := rel.of("v1beta1").Get("a").Status().String("url"); got != "v1beta1" {
			c.Errorf("the object has the URL %q", got)
		}
		rel.run("v1beta1", "b") // the former release still works
	})
	c.Run(t, "TD-T8 a version can go after its objects were written again, and the stored versions reduced", func(c *C) {
		c.OnlyInBubble("real servers store in another version only after a moment")
		rel := &releases{C: c, group: c.Unique("types.example.com")}
		rel.run("v1beta1", "a")
		name := "sites." + rel.group
		former := field(manifestOf(c, rel.define(&kopf.Registry{}, "v1beta1")), "spec").(map[string]any)["versions"].([]any)[0].(map[string]any)
		latter := field(manifestOf(c, rel.define(&kopf.Registry{}, "v1")), "spec").(map[string]any)["versions"].([]any)[0].(map[string]any)
		former["storage"] = false
		c.definitions().Patch(name, map[string]any{"spec": map[string]any{"versions": []any{latter, former}}})
		rel.of("v1").Patch("a", map[string]any{"metadata": map[string]any{"labels": map[string]any{"written": "again"}}})
		c.same("the stored versions", []any{"v1beta1", "v1"}, c.definitions().Get(name).Status().Get("storedVersions"))
		c.wants("the error", rel.refused("v1").Error(), "v1beta1 was previously a storage version")
		c.definitions().PatchStatus(name, map[string]any{"status": map[string]any{"storedVersions": []any{"v1"}}})
		rel.run("v1", "b")
		versions := c.definitions().Get(name).Spec().Views("versions")
		if len(versions) != 1 || versions[0].String("name") != "v1" {
			c.Errorf("the definition has %d versions: %s", len(versions), indented(versions))
		}
		if got := rel.of("v1").Get("a"); got.Spec().String("html") != "v1beta1" || got.APIVersion() != rel.group+"/v1" {
			c.Errorf("the object of the former version is %s", indented(got))
		}
	})
})

// releases are operators that install a kind in one version each.
type releases struct {
	*C
	group string
}

func (r *releases) of(version string) *Kind { return r.Of(r.group+"/"+version, "Site") }

// define defines the kind in a version.
func (r *releases) define(registry *kopf.Registry, version string) *kopf.DefinedKind {
	return kopf.DefineIn[site](registry, &kopf.Definition{Group: r.group, Version: version, Kind: "Site", Install: true})
}

// registry returns the handlers of a release, which sets the URL of each site to its version.
func (r *releases) registry(version string) *kopf.Registry {
	registry := &kopf.Registry{}
	registry.OnReconcile(r.define(registry, version).Selector(), kopf.Typed(func(_ context.Context, _ *kopf.Reconcile, s *site) error {
		s.Status.URL = version
		return nil
	}), nil)
	return registry
}

// run runs a release until it has handled a new object, and stops it.
func (r *releases) run(version, name string) {
	r.Helper()
	op := r.Operator(r.registry(version))
	definitions := r.definitions()
	r.Cleanup(func() { _ = r.Client.Delete(contextWithout(r.Context()), definitions.Ref("sites."+r.group), nil) })
	r.WaitFor("the kind", func() bool { return r.serves(definitions.Get("sites." + r.group)) })
	r.of(version).Create(name, spec(map[string]any{"html": version}))
	r.WaitFor("the status", func() bool { return r.of(version).Get(name).Status().String("url") == version })
	op.Stop()
}

// refused runs a release that cannot install its kind, and returns its error.
func (r *releases) refused(version string) error {
	r.Helper()
	op, wire, _ := r.operatorOn(r.registry(version))
	defer wire.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	err := op.Run(ctx)
	if passed := time.Since(began); err == nil || r.late(passed, 10*time.Second) {
		r.Fatalf("after %s, the release %s ends with %s, want an error soon", passed, version, fmt.Sprint(err))
	}
	return err
}
