package helm

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"

	"github.com/kopf-go/kopf/e2e/cluster"
)

// deploymentOf returns the Deployment of the release, nil if there is none.
func deploymentOf(t *testing.T, c *cluster.Cluster) (d *struct {
	Spec struct {
		Replicas int
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				ImagePullSecrets []struct{ Name string }
				NodeSelector     map[string]string
				Affinity         map[string]any
				Containers       []struct {
					Env []struct{ Name, Value string }
				}
			}
		}
	}
}) {
	t.Helper()
	data, err := c.Request(t.Context(), http.MethodGet, "/apis/apps/v1/namespaces/ops/deployments/web", nil)
	if status, ok := err.(*cluster.StatusError); ok && status.Code == http.StatusNotFound {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestInstallation installs, upgrades and uninstalls a chart with Helm's client on a real API server.
func TestInstallation(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, &cluster.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	settings := cli.New()
	settings.KubeConfig = c.Kubeconfig()
	settings.SetNamespace("ops")
	configuration := &action.Configuration{}
	if err := configuration.Init(settings.RESTClientGetter(), "ops", "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	release, err := loader.Load(chart(t, operators["webhooks"], "--replicas=2 -n a -n ops --chart-version 1.2.3 --image example.com/web:1"))
	if err != nil {
		t.Fatal(err)
	}
	if release.Metadata.Version != "1.2.3" || release.Metadata.AppVersion != "1" {
		t.Errorf("the chart has the version %s, and that of %s", release.Metadata.Version, release.Metadata.AppVersion)
	}
	c.Kubectl(t, "create", "namespace", "a") // in which the operator gets a Role

	t.Run("TD-44 install", func(t *testing.T) {
		install := action.NewInstall(configuration)
		install.ReleaseName, install.Namespace, install.CreateNamespace = "release", "ops", true
		if _, err := install.RunWithContext(ctx, release, nil); err != nil {
			t.Fatal(err)
		}
		if d := deploymentOf(t, c); d == nil || d.Spec.Replicas != 2 || len(d.Spec.Template.Spec.Containers[0].Env) != 1 {
			t.Errorf("got %+v", d)
		}
		c.Kubectl(t, "wait", "--for=condition=Established", "crd/kopfexamples.kopf.dev")
		c.Kubectl(t, "apply", "-f", "../../../examples/obj.yaml", "-n", "ops")
	})
	t.Run("TD-44 upgrade with other values", func(t *testing.T) {
		upgrade := action.NewUpgrade(configuration)
		upgrade.Namespace = "ops"
		values := map[string]any{
			"replicas": 3, "env": []any{map[string]any{"name": "LEVEL", "value": "{{ high }}"}}, "imagePullSecrets": []any{map[string]any{"name": "registry"}},
			"podAnnotations": map[string]any{"example.com/a": "yes"}, "nodeSelector": map[string]any{"kubernetes.io/os": "linux"},
			"affinity": map[string]any{"podAntiAffinity": map[string]any{}}, "namespaces": []any{"ops"},
		}
		if _, err := upgrade.RunWithContext(ctx, "release", release, values); err != nil {
			t.Fatal(err)
		}
		d := deploymentOf(t, c)
		if d == nil {
			t.Fatal("there is no Deployment")
		}
		pod := &d.Spec.Template.Spec
		if env := pod.Containers[0].Env; len(env) != 2 || env[0].Name != "POD_ID" || env[1].Name != "LEVEL" || env[1].Value != "{{ high }}" {
			t.Errorf("got the environment %+v", env)
		}
		if d.Spec.Replicas != 3 || len(pod.ImagePullSecrets) != 1 || pod.NodeSelector["kubernetes.io/os"] != "linux" || pod.Affinity["podAntiAffinity"] == nil || d.Spec.Template.Metadata.Annotations["example.com/a"] != "yes" {
			t.Errorf("got %+v", d)
		}
		if roles := c.Kubectl(t, "get", "roles", "-n", "a", "-o", "name"); roles != "" {
			t.Errorf("the namespace a, which is served no more, has %s", roles)
		}
	})
	t.Run("TD-T6 uninstall, and the definitions and their objects stay", func(t *testing.T) {
		uninstall := action.NewUninstall(configuration)
		if _, err := uninstall.Run("release"); err != nil {
			t.Fatal(err)
		}
		if d := deploymentOf(t, c); d != nil {
			t.Errorf("got %+v", d)
		}
		if left := c.Kubectl(t, "get", "clusterroles,validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", "app.kubernetes.io/name=web", "-o", "name"); left != "" {
			t.Errorf("left are %s", left)
		}
		if objects := c.Kubectl(t, "get", "kopfexamples", "-n", "ops", "-o", "name"); objects == "" {
			t.Error("the objects are gone")
		}
	})
	t.Run("TD-T6 install it once more", func(t *testing.T) {
		install := action.NewInstall(configuration)
		install.ReleaseName, install.Namespace = "release", "ops"
		if _, err := install.RunWithContext(ctx, release, nil); err != nil {
			t.Fatal(err)
		}
	})
}
