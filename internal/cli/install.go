package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/installation"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/namespaces"
)

// This file generates and writes the installation from the options.

// ReadDefinitions returns the definitions of the operator, and those in the files of the options.
func (c *Call) ReadDefinitions(own []json.RawMessage) (all []map[string]any, warnings []string, err error) {
	var files []manifest.File
	for _, data := range own {
		files = append(files, manifest.File{Path: "Define", Data: data})
	}
	return installation.Definitions(append(files, c.Manifests...), c.Install().Definitions)
}

// Model returns the model of the installation, without permissions. The webhooks are the kinds of their configurations. If there are any, the note says which
// settings the manifests expect.
func (c *Call) Model(program string, definitions []map[string]any, webhooks []string) (m *installation.Model, note string) {
	o := c.Install()
	m = &installation.Model{
		Name: cmp.Or(o.Name, installation.NameOf(program)), Version: o.ChartVersion, Namespaces: c.Namespaces, Lease: c.LeaderElect, Replicas: o.Replicas, Monitoring: o.Monitoring, Definitions: definitions,
	}
	m.Patterns = namespaces.IsPattern(strings.Join(m.Namespaces, ""))
	m.Image, m.Home = cmp.Or(o.Image, m.Name), o.Home
	if m.Home == "" && len(m.Namespaces) == 1 && !m.Patterns {
		m.Home = m.Namespaces[0]
	}
	m.Home = cmp.Or(m.Home, "default")
	if m.Replicas == 0 && m.Lease != "" {
		m.Replicas = 2
	}
	if m.Replicas = max(m.Replicas, 1); m.Replicas > 1 {
		m.Lease = cmp.Or(m.Lease, m.Name)
	}
	m.Args = []string{"--standalone"}
	if c.Peering != "" {
		m.Args = []string{"--peering=" + c.Peering}
	}
	if len(webhooks) == 0 {
		return m, ""
	}
	kinds := slices.Clone(webhooks)
	slices.Sort(kinds)
	w := &installation.Webhooks{Port: cmp.Or(o.WebhookPort, 9443), Configuration: cmp.Or(o.WebhookConfiguration, m.Name+".kopf.dev"), Kinds: slices.Compact(kinds)}
	m.Webhooks = w
	return m, fmt.Sprintf("There are admission handlers: the manifests expect s.Admission.Server = &kopf.WebhookServer{Port: %d, Service: &kopf.ServiceReference{Name: %q}} and s.Admission.Managed = %q in the function of kopf.Configure.\n",
		w.Port, m.Name, w.Configuration)
}

// DependsOnWebhooks reports whether the objects to write depend on the webhook server, if there is one.
func (c *Call) DependsOnWebhooks() bool {
	only := c.Install().Only
	return len(only) == 0 || slices.ContainsFunc(only, installation.DependsOnWebhooks)
}

// DependsOnHandlers reports whether the objects to write depend on the handlers of the operator.
func (c *Call) DependsOnHandlers() bool {
	only := c.Install().Only
	return len(only) == 0 || slices.ContainsFunc(only, installation.DependsOnHandlers)
}

// Write prints or writes the manifests, or compares them with the existing ones and reports whether they differ.
func (c *Call) Write(m *installation.Model, stdout, stderr io.Writer) (differs bool, err error) {
	o := c.Install()
	if o.NoDescriptions {
		m = m.Clone()
	}
	objects := m.Objects()
	if len(o.Only) > 0 {
		if objects, err = m.Asked(o.Only); err != nil {
			return false, err
		}
	}
	if o.Out == "" {
		_, err = fmt.Fprint(stdout, installation.Documents(objects))
		return false, err
	}
	var files installation.Files
	switch o.Format {
	case "helm":
		files = m.ChartFiles()
	case "kustomize":
		files = m.KustomizeFiles(objects)
	default:
		files = m.YAMLFiles(objects)
	}
	folder := &installation.Folder{Path: o.Out, Keep: len(o.Only) > 0}
	if o.Check {
		diff, err := folder.Diff(files)
		fmt.Fprint(stdout, diff)
		return diff != "", err
	}
	removed, err := folder.Write(files)
	for _, path := range removed {
		fmt.Fprintln(stderr, "Removed "+path)
	}
	return false, err
}
