package rules

import (
	"maps"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func claimFunctions() map[string]function {
	return map[string]function{
		"accessModes":    accessModes,
		"claimSize":      claimSize,
		"dataSource":     dataSource,
		"dataSourceKind": dataSourceKind,
		"claimUpdate":    claimUpdate,
		"volumeCapacity": volumeCapacity,
		"volumeUpdate":   volumeUpdate,
	}
}

// accessModes checks modes. Its errors have the path of the list.
func accessModes(n *node, _ string, _ []string) {
	modes := []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"}
	alone, others := false, false
	for _, mode := range n.items() {
		mode.path = n.path
		mode.checkEnum(modes)
		if mode.text() == "ReadWriteOncePod" {
			alone = true
		} else {
			others = true
		}
	}
	if alone && others {
		n.forbidden("may not use ReadWriteOncePod with other access modes")
	}
}

func claimSize(n *node, _ string, _ []string) {
	size := n.at("resources.requests.storage")
	size.path = n.path + ".resources[storage]"
	if size.value == nil {
		size.required("")
		return
	}
	positiveAmount(size, "must be greater than zero", nil)
}

// dataSource checks the older one of the two fields for the source of a claim. The server drops a kind that is unknown there, and copies the newer field.
func dataSource(n *node, _ string, _ []string) {
	source, ref := n.child("dataSource"), n.child("dataSourceRef")
	switch source.string("apiGroup") + "/" + source.string("kind") {
	case "/PersistentVolumeClaim", "snapshot.storage.k8s.io/VolumeSnapshot":
		source.apply("DataSource")
		return
	}
	if ref.value != nil && ref.string("namespace") == "" {
		source.value = ref.value
		source.apply("DataSource")
	}
}

func dataSourceKind(n *node, _ string, _ []string) {
	n.report(field.Invalid(n.path, n.string("kind"), "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
}

// claimUpdate refuses changes to the spec of a claim. Bound claims allow some.
func claimUpdate(n *node, _ string, _ []string) {
	spec := n.child("spec")
	old, _ := rawjson.Clone(spec.old).(map[string]any)
	now, _ := rawjson.Clone(spec.value).(map[string]any)
	if old == nil || now == nil {
		return
	}
	if old["volumeName"] == nil || old["volumeName"] == "" {
		restoreField(old, now, "volumeName")
	}
	if _, set := old["storageClassName"]; !set {
		restoreField(old, now, "storageClassName")
	}
	if n.string("status.phase") == "Bound" {
		restoreField(now, old, "volumeAttributesClassName")
		requests, _ := rawjson.Lookup(now, "resources", "requests")
		before, _ := rawjson.Lookup(old, "resources", "requests")
		if m := rawjson.AsMap(requests); m != nil {
			restoreField(m, rawjson.AsMap(before), "storage")
		}
	}
	if !same(old, now) {
		spec.forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims" + difference(old, now))
	}
	size := spec.at("resources.requests.storage")
	before, was := (&node{value: size.old}).quantity()
	after, is := size.quantity()
	status, known := n.at("status.capacity.storage").quantity()
	if is && was && after.Cmp(before) < 0 && (known && after.Cmp(status) <= 0 || !known && after.Sign() <= 0) {
		size.forbidden("field can not be less than status.capacity")
	}
	mode := spec.child("volumeMode")
	mode.path = "volumeMode" // as in kube-apiserver
	mode.checkImmutable("")
}

func volumeCapacity(n *node, _ string, _ []string) {
	entries := n.entries()
	if !n.has("storage") || len(entries) > 1 {
		n.report(field.NotSupported(n.path, n.value, `supported values: "storage"`))
	}
	for _, entry := range entries {
		positiveAmount(entry, "must be greater than zero", nil)
	}
}

// volumeUpdate refuses changes to the source of a volume.
func volumeUpdate(n *node, _ string, _ []string) {
	old, now := rawjson.AsMap(n.old), rawjson.AsMap(n.value)
	const secret = "controllerExpandSecretRef" // it may be added
	if csi, before := rawjson.AsMap(now["csi"]), rawjson.AsMap(old["csi"]); csi != nil && before != nil && before[secret] == nil {
		now, csi = maps.Clone(now), maps.Clone(csi)
		delete(csi, secret)
		now["csi"] = csi
	}
	for _, r := range table().sets["PersistentVolumeSpec"] {
		for _, w := range r.words {
			if w.name == "oneof" && !sameSources(old, now, w.args) {
				n.report(field.Forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"+difference(old, now)))
			}
		}
	}
	mode := n.child("volumeMode")
	mode.path = "volumeMode" // as in kube-apiserver
	mode.checkImmutable("")
	if class := n.child("volumeAttributesClassName"); class.old != nil && class.value == nil {
		class.forbidden("update from non-nil value to nil is forbidden")
	}
}

func sameSources(old, now map[string]any, sources []string) bool {
	for _, text := range sources {
		name := fieldOf(text)
		if !same(old[name], now[name]) {
			return false
		}
	}
	return true
}
