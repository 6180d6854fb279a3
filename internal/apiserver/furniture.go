package apiserver

import (
	"encoding/json"
	"slices"

	"github.com/kopf-go/kopf/internal/apiserver/apierrors"
	"github.com/kopf-go/kopf/internal/apiserver/store"
	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
	"github.com/kopf-go/kopf/internal/errtype"
	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Objects of every cluster: namespaces, priority classes, the service of the API server, and, from kube-controller-manager, service accounts.

// The address of the service is the first one of the range, as in clusters. Its endpoint is an address for documentation, which no host has.
const (
	serverService  = "10.96.0.1"
	serverEndpoint = "192.0.2.1"
)

// furnish creates the objects that kube-apiserver creates.
func (s *Server) furnish() {
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		s.make("kube-apiserver", "v1", "Namespace", map[string]any{"metadata": map[string]any{"name": name}})
	}
	for _, class := range []struct{ name, value, description string }{
		{"system-cluster-critical", "2000000000", "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."},
		{"system-node-critical", "2000001000", "Used for system critical pods that must not be moved from their current node."},
	} {
		s.make("kube-apiserver", "scheduling.k8s.io/v1", "PriorityClass", map[string]any{
			"metadata": map[string]any{"name": class.name}, "value": json.Number(class.value), "description": class.description,
		})
	}
	s.makeServerService()
}

// makeServerService creates the service of the API server, with its endpoints, if it is missing.
func (s *Server) makeServerService() {
	meta := func(labels map[string]any) map[string]any {
		return map[string]any{"name": "kubernetes", "namespace": "default", "labels": labels}
	}
	port := json.Number("6443")
	s.make("kube-apiserver", "v1", "Service", map[string]any{
		"metadata": meta(map[string]any{"component": "apiserver", "provider": "kubernetes"}),
		"spec": map[string]any{
			"clusterIP": serverService, "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
			"ports": []any{map[string]any{"name": "https", "port": json.Number("443"), "protocol": "TCP", "targetPort": port}},
		},
	})
	ports := []any{map[string]any{"name": "https", "port": port, "protocol": "TCP"}}
	s.make("kube-apiserver", "v1", "Endpoints", map[string]any{
		"metadata": meta(map[string]any{"endpointslice.kubernetes.io/skip-mirror": "true"}),
		"subsets":  []any{map[string]any{"addresses": []any{map[string]any{"ip": serverEndpoint}}, "ports": ports}},
	})
	s.make("kube-apiserver", "discovery.k8s.io/v1", "EndpointSlice", map[string]any{
		"metadata": meta(map[string]any{"kubernetes.io/service-name": "kubernetes"}), "addressType": "IPv4", "ports": rawjson.Clone(ports),
		"endpoints": []any{map[string]any{"addresses": []any{serverEndpoint}, "conditions": map[string]any{"ready": true}}},
	})
}

// make creates an object on behalf of a component of the cluster, if it is missing.
func (s *Server) make(manager, apiVersion, kind string, object map[string]any) {
	meta := rawjson.AsMap(object["metadata"])
	object["apiVersion"], object["kind"] = apiVersion, kind
	r := &apiRequest{server: s, kind: s.kindOf(apiVersion, kind), verb: "create", manager: manager}
	r.name, r.namespace = unstructured.Text(meta, "name"), unstructured.Text(meta, "namespace")
	_, _, err := r.createObject(object, false)
	if e := (*apierrors.StatusError)(nil); err != nil && (!errtype.As(err, &e) || e.Reason != "AlreadyExists" && e.Reason != "Forbidden") {
		s.opts.Logger.Error("An object of the cluster cannot be created", "kind", kind, "object", r.key(), "error", err)
	}
}

// makeAccount creates the service account of a namespace, as kube-controller-manager does.
func (s *Server) makeAccount(namespace string) {
	item := s.db.Get("namespaces.", namespace)
	if s.collector == nil || item == nil || isDeleted(item.Raw) {
		return
	}
	s.make("kube-controller-manager", "v1", "ServiceAccount", map[string]any{"metadata": map[string]any{"name": "default", "namespace": namespace}})
}

// These finalizers block the deletion of claims, volumes and classes that are in use.
const (
	claimFinalizer  = "kubernetes.io/pvc-protection"
	volumeFinalizer = "kubernetes.io/pv-protection"
	classFinalizer  = "kubernetes.io/vac-protection"
)

// releaseStorage removes the finalizer of a deleted claim or volume that is not in use, as kube-controller-manager does.
func (s *Server) releaseStorage(k *kindInfo, i *store.Item) {
	finalizer := map[string]string{"persistentvolumeclaims": claimFinalizer, "persistentvolumes": volumeFinalizer, "volumeattributesclasses": classFinalizer}[k.resource.Plural]
	if s.collector == nil || finalizer == "" || k.crd != nil || !isDeleted(i.Raw) {
		return
	}
	finalizers := unstructured.Texts(unstructured.View(i.Raw).Get("metadata.finalizers"))
	if !slices.Contains(finalizers, finalizer) || s.isClaimed(k, i) {
		return
	}
	r := &apiRequest{server: s, kind: k, verb: "patch", name: i.Name, namespace: i.Namespace, manager: "kube-controller-manager"}
	_, err := r.changeObject(func(live map[string]any) (map[string]any, error) {
		manifest.RemoveFinalizer(live, finalizer)
		return live, nil
	})
	if e := (*apierrors.StatusError)(nil); err != nil && (!errtype.As(err, &e) || e.Code != 404) {
		s.opts.Logger.Error("A volume or a claim cannot be removed", "object", i.Key, "error", err)
	}
}

// hasAttributes reports whether a claim or a volume has the attributes of a class.
func (s *Server) hasAttributes(class string) bool {
	for collection, paths := range map[string][]string{
		"persistentvolumes.": {"spec.volumeAttributesClassName"},
		"persistentvolumeclaims.": {
			"spec.volumeAttributesClassName", "status.currentVolumeAttributesClassName", "status.modifyVolumeStatus.targetVolumeAttributesClassName",
		},
	} {
		items, _ := s.db.List(collection)
		for _, item := range items {
			if slices.ContainsFunc(paths, func(path string) bool { return unstructured.View(item.Raw).String(path) == class }) {
				return true
			}
		}
	}
	return false
}

// releaseClasses removes the finalizers of deleted attributes classes that no claim and no volume uses anymore.
func (s *Server) releaseClasses() {
	classes := s.kindOf("storage.k8s.io/v1", "VolumeAttributesClass")
	items, _ := s.db.List(classes.collection())
	for _, item := range items {
		s.releaseStorage(classes, item)
	}
}

// isClaimed reports whether an object is in use: a volume that is bound, a claim of a pod on a node, or a class of a claim or a volume.
func (s *Server) isClaimed(k *kindInfo, i *store.Item) bool {
	if k.resource.Plural == "persistentvolumes" {
		return rawjson.StringAt(i.Raw, "status", "phase") == "Bound"
	}
	if k.resource.Plural == "volumeattributesclasses" {
		return s.hasAttributes(i.Name)
	}
	pods, _ := s.db.List("pods.")
	return slices.ContainsFunc(pods, func(pod *store.Item) bool {
		return pod.Namespace == i.Namespace && slices.Contains(claimsOf(pod), i.Name) && usesVolumes(pod)
	})
}

// usesVolumes reports whether a pod is on a node, and has not terminated.
func usesVolumes(pod *store.Item) bool {
	phase := rawjson.StringAt(pod.Raw, "status", "phase")
	return rawjson.StringAt(pod.Raw, "spec", "nodeName") != "" && phase != "Succeeded" && phase != "Failed"
}

// claimsOf returns the names of the claims of a pod.
func claimsOf(pod *store.Item) (names []string) {
	if _, ok := rawjson.Find(pod.Raw, "spec", "volumes"); !ok {
		return nil
	}
	volumes, _ := unstructured.View(pod.Raw).Get("spec.volumes").([]any)
	for _, v := range volumes {
		claim := rawjson.AsMap(rawjson.AsMap(v)["persistentVolumeClaim"])
		if name := unstructured.Text(claim, "claimName"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// releaseClaims removes the finalizers of a pod's deleted claims.
func (s *Server) releaseClaims(pod *store.Item) {
	claims := s.kindOf("v1", "PersistentVolumeClaim")
	for _, name := range claimsOf(pod) {
		if item := s.db.Get(claims.collection(), claims.keyIn(pod.Namespace, name)); item != nil {
			s.releaseStorage(claims, item)
		}
	}
}
