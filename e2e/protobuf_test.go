package e2e

//lint:file-ignore SA1019 what is deprecated is still served

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The embedded server's table of messages must say the same as the types of Kubernetes.

var updateTables = flag.Bool("update", false, "write the table of messages anew")

// protobufKinds are what clients send as Protocol Buffers; where two have the same name, the first one is named without its group.
var protobufKinds = []any{
	meta.DeleteOptions{}, core.Binding{}, core.ConfigMap{}, core.Endpoints{}, core.Event{}, core.LimitRange{}, core.Namespace{}, core.Node{},
	core.PersistentVolumeClaim{}, core.PersistentVolume{}, core.Pod{}, core.PodTemplate{}, core.ReplicationController{}, core.ResourceQuota{},
	core.Secret{}, core.ServiceAccount{}, core.Service{}, admissionregistration.MutatingWebhookConfiguration{},
	admissionregistration.ValidatingWebhookConfiguration{}, apps.ControllerRevision{}, apps.DaemonSet{}, apps.Deployment{}, apps.ReplicaSet{},
	apps.StatefulSet{}, authentication.SelfSubjectReview{}, authentication.TokenReview{}, authentication.TokenRequest{},
	authorization.LocalSubjectAccessReview{}, authorization.SelfSubjectAccessReview{}, authorization.SelfSubjectRulesReview{},
	authorization.SubjectAccessReview{}, autoscalingv1.Scale{}, autoscaling.HorizontalPodAutoscaler{}, batch.CronJob{}, batch.Job{},
	coordination.Lease{}, discovery.EndpointSlice{}, events.Event{}, networking.IngressClass{}, networking.Ingress{}, networking.NetworkPolicy{},
	node.RuntimeClass{}, policy.PodDisruptionBudget{}, policy.Eviction{}, rbac.ClusterRoleBinding{}, rbac.ClusterRole{}, rbac.RoleBinding{},
	rbac.Role{}, scheduling.PriorityClass{}, storage.StorageClass{},
}

// messages collects the messages that the kinds are made of.
type messages struct {
	names map[reflect.Type]string
	taken map[string]bool
	lines []string
}

// name returns how the table names a type, which is added to it if it is new.
func (m *messages) name(t reflect.Type) string {
	if name := m.names[t]; name != "" {
		return name
	}
	name := t.Name()
	if m.taken[name] {
		path := strings.Split(t.PkgPath(), "/")
		name = path[len(path)-2] + "." + name
	}
	m.names[t], m.taken[name] = name, true
	type numbered struct {
		number int
		text   string
	}
	var fields []numbered
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		number, _ := strconv.Atoi(tag[1])
		text := fmt.Sprintf("%d:%s:%s", number, strings.Split(f.Tag.Get("json"), ",")[0], m.word(f))
		fields = append(fields, numbered{number, text})
	}
	slices.SortFunc(fields, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	line := name
	for _, f := range fields {
		line += " " + f.text
	}
	m.lines = append(m.lines, line)
	return name
}

// word returns how the table writes the type of a field.
func (m *messages) word(f reflect.StructField) string {
	t := f.Type
	switch {
	case t.Kind() == reflect.Pointer:
		return "!" + m.one(t.Elem())
	case t.Kind() == reflect.Struct && m.one(t) != "t" && m.one(t) != "T":
		return "!" + m.one(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return "[" + m.one(t.Elem())
	case t.Kind() == reflect.Map:
		if of := map[string]string{"s": "m", "y": "n", "q": "Q"}[m.one(t.Elem())]; of != "" {
			return of
		}
		return "M" + m.one(t.Elem())
	case !strings.Contains(f.Tag.Get("json"), "omitempty") && t.Kind() != reflect.Struct && t.Kind() != reflect.Slice:
		return "!" + m.one(t)
	}
	return m.one(t)
}

// one returns how the table writes a type.
func (m *messages) one(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[meta.Time]():
		return "t"
	case reflect.TypeFor[meta.MicroTime]():
		return "T"
	case reflect.TypeFor[resource.Quantity]():
		return "q"
	case reflect.TypeFor[intstr.IntOrString]():
		return "x"
	case reflect.TypeFor[meta.FieldsV1](), reflect.TypeFor[runtime.RawExtension]():
		return "r"
	}
	switch t.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32, reflect.Int64:
		return "i"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return m.list(t)
	case reflect.Struct:
		return m.name(t)
	}
	panic(fmt.Sprintf("a type that the table has no word for: %v", t))
}

// list is a message that holds nothing but a list.
func (m *messages) list(t reflect.Type) string {
	if t.Elem().Kind() != reflect.String {
		panic(fmt.Sprintf("a type that the table has no word for: %v", t))
	}
	return "l"
}

func TestProtobufTable(t *testing.T) {
	const path = "../apiserver_protobuf_table.go"
	m := &messages{names: make(map[reflect.Type]string), taken: make(map[string]bool)}
	for _, kind := range protobufKinds {
		m.name(reflect.TypeOf(kind))
	}
	slices.Sort(m.lines)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(source), "`\n")
	_, tail, ok := strings.Cut(rest, "`\n")
	if !ok {
		t.Fatalf("%s: the table is not found", path)
	}
	want := head + "`\n" + strings.Join(m.lines, "\n") + "\n`\n" + tail
	if want == string(source) {
		return
	}
	if !*updateTables {
		t.Errorf("%s is not what the types of Kubernetes say: write it anew by the flag -update", path)
	} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Error(err)
	}
}
