package rules

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/kopf-go/kopf/internal/apiserver/field"
)

func volumeFunctions() map[string]function {
	return map[string]function{
		"ephemeralClaim":   ephemeralClaim,
		"ephemeralName":    ephemeralName,
		"sizeLimit":        sizeLimit,
		"iqn":              iqn,
		"azureDisk":        azureDisk,
		"quobyteRegistry":  quobyteRegistry,
		"flocker":          flocker,
		"noSlash":          noSlash,
		"downwardItems":    downwardItems,
		"volumeFieldRef":   func(n *node, _ string, _ []string) { n.checkFieldRef(volumeFieldPaths) },
		"downwardRefs":     downwardRefs,
		"flexOptions":      flexOptions,
		"projectedSources": projectedSources,
		"driver":           driver,
		"templateMeta":     templateMeta,
		"imageReference":   imageReference,
	}
}

// podName returns the name of the pod that a value belongs to, "" in templates.
func (n *node) podName() string {
	spec := n.podSpec()
	if spec.path != "spec" || spec.parent == nil {
		return ""
	}
	return spec.parent.string("metadata.name")
}

// ephemeralClaim refuses a claim that belongs to another volume of the pod.
func ephemeralClaim(n *node, _ string, _ []string) {
	pod, list := n.podName(), n.parent.parent.parent
	if pod == "" {
		return
	}
	for _, volume := range list.items() {
		if volume.has("ephemeral") && pod+"-"+volume.string("name") == n.text() {
			n.invalid("must not reference a PVC that gets created for an ephemeral volume")
			return
		}
	}
}

func ephemeralName(n *node, _ string, _ []string) {
	volume := n.parent
	pod, name := n.podName(), volume.child("name")
	if pod == "" || name.text() == "" {
		return
	}
	claim := pod + "-" + name.text()
	for _, detail := range Subdomain(claim) {
		name.invalid(fmt.Sprintf("PVC name %q: %v", claim, detail))
	}
}

func sizeLimit(n *node, _ string, _ []string) {
	if q, ok := n.quantity(); ok && q.Sign() < 0 {
		n.forbidden("SizeLimit field must be a valid resource quantity")
	}
}

func iqn(n *node, detail string, _ []string) {
	pattern := ""
	switch text := n.text(); text[:min(3, len(text))] {
	case "iqn":
		pattern = `iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`
	case "eui":
		pattern = `^eui.[[:alnum:]]{16}$`
	case "naa":
		pattern = `^naa.[[:alnum:]]{32}$`
	default:
		n.invalid(detail)
		return
	}
	if !regexp.MustCompile(pattern).MatchString(n.text()) {
		n.invalid("must be valid format")
	}
}

// azureDisk checks that the URI of a disk fits its kind.
func azureDisk(n *node, _ string, _ []string) {
	kind, address := n.string("kind"), n.child("diskURI")
	switch {
	case kind == "Managed" && !strings.HasPrefix(address.text(), "/subscriptions/"):
		address.unsupported("/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}")
	case kind != "Managed" && !strings.HasPrefix(address.text(), "https://"):
		address.unsupported("https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
	}
}

func quobyteRegistry(n *node, detail string, _ []string) {
	for _, pair := range strings.Split(n.text(), ",") {
		if _, _, err := net.SplitHostPort(pair); err != nil {
			n.invalid(detail)
		}
	}
}

func flocker(n *node, _ string, _ []string) {
	name, id := n.string("datasetName"), n.string("datasetUUID")
	switch {
	case name == "" && id == "":
		n.required("one of datasetName and datasetUUID is required")
	case name != "" && id != "":
		n.report(field.Invalid(n.path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
}

func noSlash(n *node, _ string, _ []string) {
	if strings.Contains(n.text(), "/") {
		n.invalid("must not contain '/'")
	}
}

// downwardItems checks files. Their errors have the path of the volume.
func downwardItems(n *node, _ string, _ []string) {
	for _, item := range n.items() {
		item.path = n.parent.path
		item.apply("DownwardAPIVolumeFile")
	}
}

func downwardRefs(n *node, _ string, _ []string) {
	switch {
	case n.has("fieldRef"):
		if n.has("resourceFieldRef") {
			n.report(field.Invalid(n.path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
		}
	case n.has("resourceFieldRef"):
		n.child("resourceFieldRef").checkResourceRef(true)
	default:
		n.required("one of fieldRef and resourceFieldRef is required")
	}
}

func flexOptions(n *node, _ string, _ []string) {
	for _, option := range n.entries() {
		domain, _, _ := strings.Cut(strings.ToLower(option.key()), "/")
		if strings.HasSuffix("."+domain, ".kubernetes.io") || strings.HasSuffix("."+domain, ".k8s.io") {
			n.report(field.Invalid(option.path, option.key(), "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
}

// projectedSources checks the sources of a volume. No two of them may write the same file.
func projectedSources(n *node, _ string, _ []string) {
	seen := make(map[string]bool)
	write := func(path, shown string) {
		if path != "" && seen[path] {
			n.report(field.Invalid(n.path, shown, "conflicting duplicate paths"))
		}
		seen[path] = true
	}
	for _, source := range n.child("sources").items() {
		for _, name := range []string{"secret", "configMap"} {
			if s := source.child(name); s.value != nil {
				s.apply("NamedItems")
				for _, item := range s.child("items").items() {
					write(item.string("path"), s.string("name"))
				}
			}
		}
		if s := source.child("downwardAPI"); s.value != nil {
			for _, item := range s.child("items").items() {
				path := item.string("path")
				item.path = s.path
				item.apply("DownwardAPIVolumeFile")
				write(path, path)
			}
		}
		projectedToken(n, source.child("serviceAccountToken"))
		if source.count("secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate") > 1 {
			source.forbidden("may not specify more than 1 volume type per source")
		}
	}
}

func projectedToken(volume, token *node) {
	if token.value == nil {
		return
	}
	token.apply("ServiceAccountTokenProjection")
	path := token.child("path")
	path.path = join(volume.path, "path")
	if path.text() == "" {
		path.required("")
	} else {
		path.format(localPath)
	}
}

func driver(n *node, _ string, _ []string) {
	if len(n.text()) > 63 {
		n.report(field.TooLong(n.path, nil, "may not be more than 63 bytes"))
	}
	for _, detail := range Subdomain(strings.ToLower(n.text())) {
		n.invalid(detail)
	}
}

// templateMeta refuses metadata that the template of a claim cannot have.
func templateMeta(n *node, _ string, _ []string) {
	for _, key := range n.sortedKeys() {
		if key != "labels" && key != "annotations" && !isEmpty(n.child(key).value) {
			n.child(key).forbidden("cannot be set")
		}
	}
}

// imageReference requires the image in pods. Templates may omit it.
func imageReference(n *node, _ string, _ []string) {
	if n.podSpec().path == "spec" {
		n.child("reference").required("")
	}
}
