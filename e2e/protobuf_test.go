package e2e

//lint:file-ignore SA1019 what is deprecated is still served

import (
	"flag"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resources "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// The embedded server's table of types must describe the same Protocol Buffers as the types of Kubernetes.

var updateTables = flag.Bool("update", false, "write the numbers in the table of types anew")

// protobufKinds are the kinds that clients send as Protocol Buffers.
var protobufKinds = []any{
	meta.DeleteOptions{}, meta.Status{}, core.Binding{}, core.ConfigMap{}, core.Endpoints{}, core.Event{}, core.LimitRange{}, core.Namespace{}, core.Node{},
	core.PersistentVolumeClaim{}, core.PersistentVolume{}, core.Pod{}, core.PodTemplate{}, core.ReplicationController{}, core.ResourceQuota{},
	core.Secret{}, core.ServiceAccount{}, core.Service{}, admissionregistration.MutatingWebhookConfiguration{},
	admissionregistration.ValidatingWebhookConfiguration{}, apiextensions.CustomResourceDefinition{}, apps.ControllerRevision{}, apps.DaemonSet{}, apps.Deployment{}, apps.ReplicaSet{},
	apps.StatefulSet{}, authentication.SelfSubjectReview{}, authentication.TokenReview{}, authentication.TokenRequest{},
	authorization.LocalSubjectAccessReview{}, authorization.SelfSubjectAccessReview{}, authorization.SelfSubjectRulesReview{},
	authorization.SubjectAccessReview{}, autoscalingv1.Scale{}, autoscalingv1.HorizontalPodAutoscaler{}, autoscaling.HorizontalPodAutoscaler{}, batch.CronJob{}, batch.Job{},
	coordination.Lease{}, discovery.EndpointSlice{}, events.Event{}, networking.IngressClass{}, networking.Ingress{}, networking.NetworkPolicy{},
	node.RuntimeClass{}, policy.PodDisruptionBudget{}, policy.Eviction{}, rbac.ClusterRoleBinding{}, rbac.ClusterRole{}, rbac.RoleBinding{},
	rbac.Role{}, scheduling.PriorityClass{}, storage.StorageClass{},
	admissionregistration.MutatingAdmissionPolicy{}, admissionregistration.MutatingAdmissionPolicyBinding{},
	admissionregistration.ValidatingAdmissionPolicy{}, admissionregistration.ValidatingAdmissionPolicyBinding{}, apiregistration.APIService{},
	certificates.CertificateSigningRequest{}, core.ComponentStatus{}, flowcontrol.FlowSchema{}, flowcontrol.PriorityLevelConfiguration{},
	networking.IPAddress{}, networking.ServiceCIDR{}, resources.DeviceClass{}, resources.ResourceClaim{}, resources.ResourceClaimTemplate{},
	resources.ResourceSlice{}, storage.CSIDriver{}, storage.CSINode{}, storage.CSIStorageCapacity{}, storage.VolumeAttachment{},
	storage.VolumeAttributesClass{},
}

// messages are the fields, by the packages, the versions and the names of the types, and then by their JSON names.
type messages map[string]map[string]string

// add adds a type, and all types that it contains.
func (m messages) add(t reflect.Type) {
	name := path.Base(path.Dir(t.PkgPath())) + "." + path.Base(t.PkgPath()) + "." + t.Name()
	if m[name] == nil {
		m[name] = make(map[string]string)
		m.addFields(m[name], t, "")
	}
}

// addFields adds the fields of a type to a message, with their numbers and their types in the notation of the table.
func (m messages) addFields(message map[string]string, t reflect.Type, embedded string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			m.addFields(message, f.Type, embedded+tag[1]+".")
			continue
		}
		message[name] = presence(f) + embedded + tag[1] + ":" + m.word(f.Type)
	}
}

// presence returns the notation of the table for an omitted field.
func presence(f reflect.StructField) string {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case strings.Contains(options, "omitzero"):
		return "."
	case !strings.Contains(options, "omitempty") && f.Type.Kind() == reflect.Pointer:
		return "/|"
	case !strings.Contains(options, "omitempty") || f.Type.Kind() == reflect.Struct:
		return "|"
	case f.Type.Kind() == reflect.Pointer:
		return "/"
	}
	return "."
}

// word returns the notation of the table for a type, as far as it matters for Protocol Buffers.
func (m messages) word(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[meta.Time](), reflect.TypeFor[meta.MicroTime](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](),
		reflect.TypeFor[meta.FieldsV1](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[apiextensions.JSON](), reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool](),
		reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray](), reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray]():
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.word(t.Elem())
	case reflect.String:
		return ""
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + m.word(t.Elem())
	case reflect.Map:
		return "{}" + m.word(t.Elem())
	case reflect.Struct:
		m.add(t)
		return t.Name()
	}
	panic(fmt.Sprintf("a type that the table has no word for: %v", t))
}

// tableField is a field in the table of types: its name, its number, its type, and marks.
var tableField = regexp.MustCompile(`^([\w$-]+!?)([./|]+[\d.]+)?(?::([^#@+%=*?]*))?(.*)$`)

// check compares a field of the table, and returns it with its correct number.
func (m messages) check(t *testing.T, message, field string) string {
	parts := tableField.FindStringSubmatch(field)
	name, typ := strings.TrimSuffix(parts[1], "!"), parts[3]
	want, known := m[message][name]
	if !known {
		return strings.Replace(field, parts[2], "", 1)
	}
	delete(m[message], name)
	number, word, _ := strings.Cut(want, ":")
	if short := strings.NewReplacer("string", "", "long", "int").Replace(typ); short != word && !strings.HasSuffix(short, "."+strings.TrimLeft(word, "[]{}")) {
		t.Errorf("the type of %s in %s: got %q, want %q", name, message, typ, word)
	}
	return parts[1] + number + strings.TrimPrefix(field, parts[1]+parts[2])
}

func TestProtobufTable(t *testing.T) {
	const file = "../internal/apiserver/types/types.txt"
	m := make(messages)
	for _, kind := range protobufKinds {
		m.add(reflect.TypeOf(kind))
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var group string
	var lines []string
	for _, line := range strings.Split(strings.ReplaceAll(strings.TrimSpace(string(source)), "\n\t", " "), "\n") {
		if strings.HasPrefix(line, "#") {
			lines = append(lines, line)
			continue
		}
		words := strings.Fields(line)
		if words[0] == "package" {
			parts := strings.Split(words[1], ".")
			group = strings.Join(parts[max(0, len(parts)-2):], ".") // with the version
		} else if len(words) > 1 && words[1] != "=" {
			for i, word := range words[1:] {
				words[i+1] = m.check(t, group+"."+strings.TrimSuffix(words[0], "*"), word)
			}
		}
		lines = append(lines, wrapped(words))
	}
	for message, fields := range m {
		for name := range fields {
			t.Errorf("the field %s in %s is missing", name, message)
		}
	}
	want := strings.Join(lines, "\n") + "\n"
	if want == string(source) {
		return
	}
	if !*updateTables {
		t.Errorf("%s is not what the types of Kubernetes say: write it anew by the flag -update", file)
	} else if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Error(err)
	}
}

// wrapped joins words to lines of limited length.
func wrapped(words []string) string {
	text, width := words[0], len(words[0])
	for _, word := range words[1:] {
		if width+1+len(word) > 140 {
			text, width = text+"\n\t"+word, 4+len(word)
			continue
		}
		text, width = text+" "+word, width+1+len(word)
	}
	return text
}
