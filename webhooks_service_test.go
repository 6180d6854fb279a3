package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/kopf-go/kopf"
)

// serviceWorld is an API server that reaches the webhooks of an operator through a Service. It uses connections, which do not work in bubbles.
func serviceWorld(t *testing.T, configure func(*kopf.WebhookServer)) *kopf.Client {
	t.Helper()
	server := kopf.NewAPIServer(nil)
	info := server.ConnectionInfo()
	info.DefaultNamespace = "default"
	client, err := kopf.NewClient(info, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "hooks", "namespace": "default"},
		"spec": map[string]any{"type": "ExternalName", "externalName": "localhost"}}
	if err := client.Create(t.Context(), service, nil); err != nil {
		t.Fatal(err)
	}
	r := &kopf.Registry{}
	r.OnValidate("configmaps", func(context.Context, *kopf.Admission) error { return errors.New("the operator was asked") }, &kopf.AdmissionOptions{ID: "Check"})
	settings := kopf.NewSettings()
	hooks := &kopf.WebhookServer{Listener: listener, Service: &kopf.ServiceReference{Name: "hooks", Port: listener.Addr().(*net.TCPAddr).Port}}
	configure(hooks)
	settings.Admission.Server, settings.Admission.Managed, settings.Admission.ShutdownDelay = hooks, "hooks.example.com", 0
	kopf.NewRunner(t, &kopf.Operator{Registry: r, Connection: info, Settings: settings}, nil)
	return client
}

func TestWebhookService(t *testing.T) {
	for name, configure := range map[string]func(*kopf.WebhookServer){
		"AC-45 a Service is announced":                                func(*kopf.WebhookServer) {},
		"AC-45 a Service is announced, with the path of the server":   func(s *kopf.WebhookServer) { s.Path = "/hooks" },
		"AC-45 a Service is announced, with a host for other clients": func(s *kopf.WebhookServer) { s.Host = "hooks.example.com" },
		"HA-52 a Service is announced, and the replicas share authority": func(s *kopf.WebhookServer) {
			s.AuthoritySecret = "default/authority"
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := serviceWorld(t, configure)
			ref := kopf.ObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration", Name: "hooks.example.com"}
			stored, err := kopf.WaitFor(t.Context(), client, ref, "to be written", func(b *kopf.Body) bool { return b != nil && strings.Contains(fmt.Sprint(b.Map()), "clientConfig") })
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(stored.Map()); strings.Contains(text, "url:") || !strings.Contains(text, "name:hooks namespace:default") {
				t.Errorf("the configuration is %s", text)
			}
			err = client.Create(t.Context(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}}, nil)
			if err == nil || !strings.Contains(err.Error(), "the operator was asked") {
				t.Errorf("got %v, want the refusal of the operator", err)
			}
		})
	}
}

func TestWebhookServiceRefusals(t *testing.T) {
	for want, server := range map[string]*kopf.WebhookServer{
		"webhook server: the Service has no name":                                                        {Port: 1, Service: &kopf.ServiceReference{}},
		"webhook server: the fields Service and Cluster exclude each other":                              {Port: 1, Service: &kopf.ServiceReference{Name: "a"}, Cluster: kopf.ClusterK3d},
		`webhook server: the Service "a" needs a fixed Port to pass connections on to`:                   {Service: &kopf.ServiceReference{Name: "a"}},
		`webhook server: the port -1 of the Service "a" is not between 0 and 65535`:                      {Port: 1, Service: &kopf.ServiceReference{Name: "a", Port: -1}},
		`webhook server: the Service "a" has no namespace, because the connection has none: give it one`: {Port: 1, Service: &kopf.ServiceReference{Name: "a"}},
	} {
		err := server.Serve(t.Context(), nil, func(kopf.WebhookClientConfig) { t.Errorf("%s: something is announced", want) })
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
