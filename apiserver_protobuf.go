package kopf

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// This file reads the Protocol Buffers in which kubectl and client-go send the built-in kinds to the in-memory API server. It knows
// the wire format, and the numbers of the fields of those kinds that such clients create; answers are in JSON.
// See https://protobuf.dev/programming-guides/encoding/ and https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding

// protobufFields says what the fields of a message are: the message, and number:name:type for each field. Types are s for a
// string, i for a whole number, b for a boolean, y for bytes, t for a time, q for a quantity, x for a number or string, m for a
// map of strings, n for a map of bytes, Q for a map of quantities, and the name of another message; behind [ is a list, and behind
// ! is what is told even if it is zero.
const protobufFields = `
ObjectMeta 1:name:s 2:generateName:s 3:namespace:s 5:uid:s 6:resourceVersion:s 7:generation:i 8:creationTimestamp:t 9:deletionTimestamp:t 10:deletionGracePeriodSeconds:!i 11:labels:m 12:annotations:m 13:ownerReferences:[OwnerReference 14:finalizers:[s
OwnerReference 1:kind:s 3:name:s 4:uid:s 5:apiVersion:s 6:controller:!b 7:blockOwnerDeletion:!b
DeleteOptions 1:gracePeriodSeconds:!i 2:preconditions:Preconditions 3:orphanDependents:!b 4:propagationPolicy:s 5:dryRun:[s
Preconditions 1:uid:s 2:resourceVersion:s
Namespace 1:metadata:ObjectMeta 2:spec:NamespaceSpec
NamespaceSpec 1:finalizers:[s
ConfigMap 1:metadata:ObjectMeta 2:data:m 3:binaryData:n 4:immutable:!b
Secret 1:metadata:ObjectMeta 2:data:n 3:type:s 4:stringData:m 5:immutable:!b
ServiceAccount 1:metadata:ObjectMeta 2:secrets:[ObjectReference 3:imagePullSecrets:[LocalObjectReference 4:automountServiceAccountToken:!b
ObjectReference 1:kind:s 2:namespace:s 3:name:s 4:uid:s 5:apiVersion:s 6:resourceVersion:s 7:fieldPath:s
LocalObjectReference 1:name:s
Event 1:metadata:ObjectMeta 2:involvedObject:ObjectReference 3:reason:s 4:message:s 5:source:EventSource 6:firstTimestamp:t 7:lastTimestamp:t 8:count:i 9:type:s 10:eventTime:t 12:action:s 13:related:ObjectReference 14:reportingComponent:s 15:reportingInstance:s
EventSource 1:component:s 2:host:s
Lease 1:metadata:ObjectMeta 2:spec:LeaseSpec
LeaseSpec 1:holderIdentity:s 2:leaseDurationSeconds:!i 3:acquireTime:t 4:renewTime:t 5:leaseTransitions:!i
Eviction 1:metadata:ObjectMeta 2:deleteOptions:DeleteOptions
SelfSubjectAccessReview 1:metadata:ObjectMeta 2:spec:SelfSubjectAccessReviewSpec
SelfSubjectAccessReviewSpec 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes
ResourceAttributes 1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s 6:subresource:s 7:name:s
NonResourceAttributes 1:path:s 2:verb:s
SelfSubjectReview 1:metadata:ObjectMeta
Scale 1:metadata:ObjectMeta 2:spec:ScaleSpec
ScaleSpec 1:replicas:!i
Role 1:metadata:ObjectMeta 2:rules:[PolicyRule
ClusterRole 1:metadata:ObjectMeta 2:rules:[PolicyRule
PolicyRule 1:verbs:[s 2:apiGroups:[s 3:resources:[s 4:resourceNames:[s 5:nonResourceURLs:[s
RoleBinding 1:metadata:ObjectMeta 2:subjects:[Subject 3:roleRef:RoleRef
ClusterRoleBinding 1:metadata:ObjectMeta 2:subjects:[Subject 3:roleRef:RoleRef
Subject 1:kind:s 2:apiGroup:s 3:name:s 4:namespace:s
RoleRef 1:apiGroup:s 2:kind:s 3:name:s
Service 1:metadata:ObjectMeta 2:spec:ServiceSpec
ServiceSpec 1:ports:[ServicePort 2:selector:m 3:clusterIP:s 4:type:s 5:externalIPs:[s 7:sessionAffinity:s 8:loadBalancerIP:s 10:externalName:s
ServicePort 1:name:s 2:protocol:s 3:port:i 4:targetPort:x 5:nodePort:i
Deployment 1:metadata:ObjectMeta 2:spec:DeploymentSpec
DeploymentSpec 1:replicas:!i 2:selector:LabelSelector 3:template:PodTemplateSpec 4:strategy:DeploymentStrategy 5:minReadySeconds:i 6:revisionHistoryLimit:!i 7:paused:b
DeploymentStrategy 1:type:s
LabelSelector 1:matchLabels:m
PodTemplateSpec 1:metadata:ObjectMeta 2:spec:PodSpec
Pod 1:metadata:ObjectMeta 2:spec:PodSpec
PodSpec 1:volumes:[Volume 2:containers:[Container 3:restartPolicy:s 4:terminationGracePeriodSeconds:!i 6:dnsPolicy:s 7:nodeSelector:m 8:serviceAccountName:s 10:nodeName:s 15:imagePullSecrets:[LocalObjectReference 20:initContainers:[Container
Volume 1:name:s
Container 1:name:s 2:image:s 3:command:[s 4:args:[s 5:workingDir:s 6:ports:[ContainerPort 7:env:[EnvVar 8:resources:ResourceRequirements 9:volumeMounts:[VolumeMount 14:imagePullPolicy:s
ContainerPort 1:name:s 2:hostPort:i 3:containerPort:i 4:protocol:s 5:hostIP:s
EnvVar 1:name:s 2:value:s
VolumeMount 1:name:s 2:readOnly:b 3:mountPath:s 4:subPath:s
ResourceRequirements 1:limits:Q 2:requests:Q
Job 1:metadata:ObjectMeta 2:spec:JobSpec
JobSpec 1:parallelism:!i 2:completions:!i 3:activeDeadlineSeconds:!i 4:selector:LabelSelector 6:template:PodTemplateSpec 7:backoffLimit:!i
CronJob 1:metadata:ObjectMeta 2:spec:CronJobSpec
CronJobSpec 1:schedule:s 3:concurrencyPolicy:s 4:suspend:!b 5:jobTemplate:JobTemplateSpec
JobTemplateSpec 1:metadata:ObjectMeta 2:spec:JobSpec
PriorityClass 1:metadata:ObjectMeta 2:value:i 3:globalDefault:b 4:description:s 5:preemptionPolicy:s
`

// protobufField is a field of a message.
type protobufField struct {
	name string
	typ  string
	list bool
	zero bool // whether it is told even if it is zero
}

var protobufMessages = sync.OnceValue(func() map[string]map[uint64]protobufField {
	all := make(map[string]map[uint64]protobufField)
	for line := range strings.Lines(strings.TrimSpace(protobufFields)) {
		words := strings.Fields(line)
		fields := make(map[uint64]protobufField)
		for _, word := range words[1:] {
			parts := strings.Split(word, ":")
			n, err := strconv.ParseUint(parts[0], 10, 64)
			if err != nil {
				panic(err) // the table is wrong
			}
			f := protobufField{name: parts[1], typ: parts[2]}
			f.typ, f.list = strings.TrimPrefix(f.typ, "["), strings.HasPrefix(f.typ, "[")
			f.zero = strings.HasPrefix(f.typ, "!")
			f.typ = strings.TrimPrefix(f.typ, "!")
			fields[n] = f
		}
		all[words[0]] = fields
	}
	return all
})

const protobufMagic = "k8s\x00"

var errProtobuf = errors.New("malformed protocol buffers")

// decodeProtobuf reads an object in the envelope that Kubernetes puts around it.
func decodeProtobuf(data []byte) (map[string]any, error) {
	rest, ok := strings.CutPrefix(string(data), protobufMagic)
	if !ok {
		return nil, fmt.Errorf("%w: they do not begin as those of Kubernetes do", errProtobuf)
	}
	var apiVersion, kind string
	var raw []byte
	err := eachField([]byte(rest), func(n, _ uint64, value []byte) error {
		switch n {
		case 1:
			return eachField(value, func(n, _ uint64, text []byte) error {
				switch n {
				case 1:
					apiVersion = string(text)
				case 2:
					kind = string(text)
				}
				return nil
			})
		case 2:
			raw = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if protobufMessages()[kind] == nil {
		return nil, fmt.Errorf("protocol buffers of the kind %q are not understood here: send JSON", kind)
	}
	object, err := decodeMessage(kind, raw, 0)
	if err != nil {
		return nil, err
	}
	object["apiVersion"], object["kind"] = apiVersion, kind
	return object, nil
}

// eachField calls visit with the number and the value of each field: a number, or bytes.
func eachField(data []byte, visit func(field, number uint64, value []byte) error) error {
	for len(data) > 0 {
		key, n := varint(data)
		if n == 0 {
			return errProtobuf
		}
		data = data[n:]
		var number uint64
		var value []byte
		switch key & 7 {
		case 0:
			if number, n = varint(data); n == 0 {
				return errProtobuf
			}
			data = data[n:]
		case 1, 5:
			size := 8
			if key&7 == 5 {
				size = 4
			}
			if len(data) < size {
				return errProtobuf
			}
			data = data[size:]
			continue // no kind that is understood has such fields
		case 2:
			size, n := varint(data)
			if n == 0 || size > uint64(len(data)-n) {
				return errProtobuf
			}
			value, data = data[n:n+int(size)], data[n+int(size):]
		default:
			return errProtobuf
		}
		if err := visit(key>>3, number, value); err != nil {
			return err
		}
	}
	return nil
}

// varint reads a number, and returns how many bytes it takes, 0 if there is none.
func varint(data []byte) (v uint64, n int) {
	for i, b := range data {
		if i == 10 {
			return 0, 0
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// maxProtobufDepth limits how deep messages may be nested.
const maxProtobufDepth = 20

func decodeMessage(name string, data []byte, depth int) (map[string]any, error) {
	if depth > maxProtobufDepth {
		return nil, fmt.Errorf("%w: they are nested too deep", errProtobuf)
	}
	fields := protobufMessages()[name]
	object := make(map[string]any)
	err := eachField(data, func(n, number uint64, value []byte) error {
		f, known := fields[n]
		if !known {
			return nil
		}
		v, err := f.decode(number, value, depth)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", f.name, err)
		case f.list:
			list, _ := object[f.name].([]any)
			object[f.name] = append(list, v)
		case f.typ == "m" || f.typ == "n" || f.typ == "Q":
			m := asMap(object[f.name])
			if m == nil {
				m = make(map[string]any)
				object[f.name] = m
			}
			for k, e := range asMap(v) {
				m[k] = e
			}
		case f.zero || !isZero(v):
			object[f.name] = v
		}
		return nil
	})
	return object, err
}

// isZero tells whether a value is what a field has that nobody has set.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case json.Number:
		return v == "0"
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func (f protobufField) decode(number uint64, value []byte, depth int) (any, error) {
	switch f.typ {
	case "s":
		return string(value), nil
	case "y":
		return base64.StdEncoding.EncodeToString(value), nil
	case "i":
		return json.Number(strconv.FormatInt(int64(number), 10)), nil
	case "b":
		return number != 0, nil
	case "t":
		return protobufTime(f.name, value)
	case "q":
		return protobufText(value, 1)
	case "x":
		return protobufEither(value)
	case "m", "n", "Q":
		return f.decodeEntry(value)
	}
	return decodeMessage(f.typ, value, depth+1)
}

// decodeEntry reads one entry of a map.
func (f protobufField) decodeEntry(value []byte) (any, error) {
	key, entry := "", any("")
	err := eachField(value, func(n, _ uint64, part []byte) (err error) {
		switch {
		case n == 1:
			key = string(part)
		case n == 2 && f.typ == "n":
			entry = base64.StdEncoding.EncodeToString(part)
		case n == 2 && f.typ == "Q":
			entry, err = protobufText(part, 1)
		case n == 2:
			entry = string(part)
		}
		return err
	})
	return map[string]any{key: entry}, err
}

// protobufText returns one field of a message that is a string.
func protobufText(message []byte, field uint64) (any, error) {
	text := ""
	err := eachField(message, func(n, _ uint64, value []byte) error {
		if n == field {
			text = string(value)
		}
		return nil
	})
	return text, err
}

// protobufEither reads a number or a string.
func protobufEither(message []byte) (any, error) {
	var typ, number uint64
	text := ""
	err := eachField(message, func(n, v uint64, value []byte) error {
		switch n {
		case 1:
			typ = v
		case 2:
			number = v
		case 3:
			text = string(value)
		}
		return nil
	})
	if typ == 1 {
		return text, err
	}
	return json.Number(strconv.FormatInt(int64(number), 10)), err
}

// protobufTime reads a moment; those of finer clocks have names that say so.
func protobufTime(name string, message []byte) (any, error) {
	var seconds, nanos uint64
	err := eachField(message, func(n, v uint64, _ []byte) error {
		switch n {
		case 1:
			seconds = v
		case 2:
			nanos = v
		}
		return nil
	})
	if err != nil || len(message) == 0 {
		return nil, err
	}
	t := time.Unix(int64(seconds), int64(uint32(nanos))).UTC()
	if name == "eventTime" || name == "acquireTime" || name == "renewTime" {
		return t.Format("2006-01-02T15:04:05.000000Z"), nil
	}
	return timestamp(t), nil
}
