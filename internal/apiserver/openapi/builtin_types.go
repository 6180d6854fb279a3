package openapi

import (
	"strings"
	"sync"

	"github.com/kopf-go/kopf/internal/apiserver/unstructured"
)

// This file knows the fields of built-in types, as far as OpenAPI documents tell of them. The table is read once.

// completeKinds are the built-in kinds of which all fields are known here.
var completeKinds = []string{"ConfigMap", "Secret", "Namespace", "ServiceAccount", "Lease"}

// builtinTypes are built-in types, one in a paragraph: its name, then a field in a line with its type and what it is for. A type
// is a scalar, the name of another type, []type, or map[type]; a mark behind it gives the key by which the items of a list are merged,
// and "set" those that are merged by themselves.
const builtinTypes = `
meta.ObjectMeta What all objects have.
annotations map[string] Texts for programs and people; nothing is selected by them.
creationTimestamp Time When the object was made.
deletionGracePeriodSeconds int64 How many seconds the object has got to end.
deletionTimestamp Time When the deletion of the object was asked for.
finalizers []string:set Who must agree before the object goes.
generateName string The beginning of a name that the server completes.
generation int64 How often the specification has changed.
labels map[string] Short texts that objects are selected by.
managedFields []ManagedFieldsEntry Who has set which fields.
name string The name of the object, unique among its kind in its namespace.
namespace string The namespace that the object lives in.
ownerReferences []OwnerReference:uid Objects that this one goes with.
resourceVersion string The version of the object, which changes with every write.
selfLink string It is not used any more.
uid string The identity of the object, which is never used again.

meta.ListMeta What all lists have.
continue string Where the next page begins.
remainingItemCount int64 How many objects are on the pages that follow.
resourceVersion string The version as of which the list was read.
selfLink string It is not used any more.
shardInfo ShardInfo Which share of the objects the list has.

meta.ShardInfo Which share of the objects a list has.
selector* string What selects the share.

meta.ManagedFieldsEntry The fields of one manager.
apiVersion string The version that the fields are written in.
fieldsType string Always FieldsV1.
fieldsV1 FieldsV1 The fields.
manager string The name of the manager.
operation string Apply or Update.
subresource string The subresource through which the fields were set.
time Time When the manager has last changed something.

meta.FieldsV1 A set of fields, as a tree of their names.

meta.Time A time.

meta.Patch A patch of any of the kinds.

meta.OwnerReference An object that this one goes with.
apiVersion* string The version of the owner's kind.
blockOwnerDeletion boolean Whether the owner waits for this object when it is deleted in the foreground.
controller boolean Whether the owner is the one that manages this object.
kind* string The kind of the owner.
name* string The name of the owner.
uid* string The identity of the owner.

meta.DeleteOptions How to delete.
apiVersion string The version of the options.
dryRun []string With All, everything is checked and nothing is stored.
gracePeriodSeconds int64 How many seconds the object has got to end.
ignoreStoreReadErrorWithClusterBreakingPotential boolean Whether objects that cannot be read are deleted nevertheless.
kind string The kind of the options.
orphanDependents boolean Whether dependents outlive the object.
preconditions Preconditions What must be so.
propagationPolicy string What becomes of dependents.

meta.Preconditions What must be so.
resourceVersion string The version that the object must have.
uid string The identity that the object must have.

meta.Status The answer to a request that answers no object.
apiVersion string The version of the answer.
code int32 The code of HTTP.
details StatusDetails More of what went wrong.
kind string The kind of the answer.
message string What to tell people.
metadata ListMeta What is said of the list.
reason string What went wrong, in one word.
status string Success or Failure.

meta.StatusDetails More of what went wrong.
causes []StatusCause What is wrong with which field.
group string The group of the resource.
kind string The kind of the resource.
name string The name of the object.
retryAfterSeconds int32 After how many seconds another attempt makes sense.
uid string The identity of the object.

meta.StatusCause What is wrong with a field.
field string The field.
message string What to tell people.
reason string What is wrong, in one word.

meta.LabelSelector Which labels objects must have.
matchExpressions []LabelSelectorRequirement Conditions that must all be met.
matchLabels map[string] Labels that objects must have.

meta.LabelSelectorRequirement One condition on a label.
key* string The name of the label.
operator* string In, NotIn, Exists, or DoesNotExist.
values []string The values in question.

meta.Condition One aspect of a state.
lastTransitionTime* Time When it has last changed.
message* string What to tell people.
observedGeneration int64 The generation that this was said of.
reason* string Why, in one word.
status* string True, False, or Unknown.
type* string The name of the aspect.

ConfigMap Configuration for programs.
binaryData map[byte] Values of any bytes.
data map[string] Values of text.
immutable boolean Whether the data can never change again.

Secret Data that not everybody should see.
data map[byte] The values, in base64.
immutable boolean Whether the data can never change again.
stringData map[string] Values of text, which are written and never read.
type string What the data is for.

Namespace A space for names of objects.
spec NamespaceSpec What the namespace is to be.
status NamespaceStatus What the namespace is.

NamespaceSpec What a namespace is to be.
finalizers []string Who must agree before the namespace goes.

NamespaceStatus What a namespace is.
conditions []NamespaceCondition:type Aspects of its state.
phase string Active or Terminating.

NamespaceCondition One aspect of the state of a namespace.
lastTransitionTime Time When it has last changed.
message string What to tell people.
reason string Why, in one word.
status* string True, False, or Unknown.
type* string The name of the aspect.

ServiceAccount An identity of programs.
automountServiceAccountToken boolean Whether pods get its token.
imagePullSecrets []LocalObjectReference Secrets to fetch images with.
secrets []ObjectReference:name Secrets that its pods may use.

LocalObjectReference An object of the same namespace.
name string The name of the object.

ObjectReference An object.
apiVersion string The version of the object's kind.
fieldPath string A part of the object.
kind string The kind of the object.
name string The name of the object.
namespace string The namespace of the object.
resourceVersion string The version of the object.
uid string The identity of the object.

Lease A promise that lasts for a time.
spec LeaseSpec What is promised.

LeaseSpec What is promised.
acquireTime MicroTime When the holder has got the lease.
holderIdentity string Who holds the lease.
leaseDurationSeconds int32 How many seconds the lease lasts from its last renewal.
leaseTransitions int32 How often the holder has changed.
preferredHolder string Who should get the lease next.
renewTime MicroTime When the lease was last renewed.
strategy string How the next holder is chosen.

meta.MicroTime A time.

Pod Containers that run together.
spec PodSpec What is to run.
status PodStatus What runs.

PodTemplate A pattern of pods.
template PodTemplateSpec The pattern.

PodTemplateSpec A pattern of pods.
metadata ObjectMeta What the pods have of what all objects have.
spec PodSpec What is to run.

PodSpec What is to run.
activeDeadlineSeconds int64 How many seconds the pod may run.
affinity any Which nodes, and which neighbours, are preferred.
automountServiceAccountToken boolean Whether the token of the service account is mounted.
containers* []Container:name The containers.
dnsConfig any How names are resolved.
dnsPolicy string Where the configuration of names comes from.
enableServiceLinks boolean Whether services are told of in the environment.
ephemeralContainers []Container:name Containers for looking into the pod.
hostAliases []HostAlias:ip Names for addresses.
hostIPC boolean Whether the pod shares the node's inter-process communication.
hostNetwork boolean Whether the pod shares the node's network.
hostPID boolean Whether the pod shares the node's processes.
hostUsers boolean Whether the pod shares the node's users.
hostname string The name of the pod's host.
imagePullSecrets []LocalObjectReference:name Secrets to fetch images with.
initContainers []Container:name Containers that run before the others.
nodeName string The node that the pod is on.
nodeSelector map[string] The labels that the node must have.
overhead map[quantity] What running the pod needs by itself.
preemptionPolicy string Whether others may be driven away.
priority int32 How important the pod is.
priorityClassName string The class that says how important the pod is.
readinessGates any More conditions of readiness.
resourceClaims any Resources that are claimed.
resources any What the pod needs as a whole.
restartPolicy string Always, OnFailure, or Never.
runtimeClassName string The class that says how to run the pod.
schedulerName string Who finds a node.
schedulingGates any What must be over before a node is looked for.
securityContext any Rights of the pod.
serviceAccountName string The identity of the pod.
setHostnameAsFQDN boolean Whether the host has its full name.
shareProcessNamespace boolean Whether the containers share their processes.
subdomain string The domain of the pod's host.
terminationGracePeriodSeconds int64 How many seconds the pod has got to end.
tolerations []Toleration Which taints of nodes are accepted.
topologySpreadConstraints any How pods spread over the nodes.
volumes []Volume:name What can be mounted.

PodStatus What runs.
conditions []Condition:type Aspects of the state.
containerStatuses any What the containers do.
hostIP string The address of the node.
hostIPs any The addresses of the node.
initContainerStatuses any What the first containers do.
message string What to tell people.
observedGeneration int64 The generation that this is said of.
phase string Pending, Running, Succeeded, Failed, or Unknown.
podIP string The address of the pod.
podIPs any The addresses of the pod.
qosClass string How resources are guaranteed.
reason string Why, in one word.
startTime Time When the pod was accepted by its node.

HostAlias Names for an address.
hostnames []string The names.
ip* string The address.

Toleration A taint that is accepted.
effect string The effect of the taint.
key string The name of the taint.
operator string Equal or Exists.
tolerationSeconds int64 For how many seconds it is accepted.
value string The value of the taint.

Volume Something that can be mounted.
configMap any A configuration.
csi any A volume of a driver.
downwardAPI any What is known of the pod.
emptyDir any A folder that goes with the pod.
ephemeral any A claim that goes with the pod.
hostPath any A folder of the node.
name* string The name of the volume.
nfs any A folder on the network.
persistentVolumeClaim any A claim.
projected any Several sources together.
secret any A secret.

Container A program in an image.
args []string The arguments.
command []string The program.
env []EnvVar:name The environment.
envFrom any Where more of the environment comes from.
image string The image.
imagePullPolicy string Always, Never, or IfNotPresent.
lifecycle any What is done after the start and before the end.
livenessProbe any How it is found out that the container lives.
name* string The name of the container.
ports []ContainerPort:containerPort The ports.
readinessProbe any How it is found out that the container is ready.
resizePolicy any What happens when resources change.
resources ResourceRequirements What the container needs.
restartPolicy string Always, for containers that run beside the others from the start.
securityContext any Rights of the container.
startupProbe any How it is found out that the container has started.
stdin boolean Whether there is a standard input.
stdinOnce boolean Whether the standard input ends with its first user.
terminationMessagePath string The file of the last words.
terminationMessagePolicy string Where the last words come from.
tty boolean Whether there is a terminal.
volumeDevices []VolumeDevice:devicePath Devices that are mounted.
volumeMounts []VolumeMount:mountPath What is mounted.
workingDir string The working folder.

EnvVar A variable of the environment.
name* string The name.
value string The value.
valueFrom any Where the value comes from.

ContainerPort A port.
containerPort* int32 The number.
hostIP string The address of the node.
hostPort int32 The number on the node.
name string The name.
protocol string TCP, UDP, or SCTP.

ResourceRequirements What is needed.
claims any Resources that are claimed.
limits map[quantity] How much there is at most.
requests map[quantity] How much there is at least.

VolumeDevice A device that is mounted.
devicePath* string Where to.
name* string The name of the claim.

VolumeMount A volume that is mounted.
mountPath* string Where to.
mountPropagation string How mounts spread.
name* string The name of the volume.
readOnly boolean Whether nothing can be written.
recursiveReadOnly string Whether that goes for what is mounted below.
subPath string The part of the volume.
subPathExpr string The part of the volume, with variables.

Deployment Pods of one pattern that are replaced step by step.
spec DeploymentSpec What the deployment is to be.
status DeploymentStatus What the deployment is.

DeploymentSpec What a deployment is to be.
minReadySeconds int32 For how many seconds a pod must be ready to count.
paused boolean Whether nothing is replaced.
progressDeadlineSeconds int32 After how many seconds without progress it has failed.
replicas int32 How many pods there are.
revisionHistoryLimit int32 How many older patterns are kept.
selector* LabelSelector Which pods belong to it.
strategy any How pods are replaced.
template* PodTemplateSpec The pattern of the pods.

DeploymentStatus What a deployment is.
availableReplicas int32 How many pods are available.
collisionCount int32 How often names have collided.
conditions []Condition:type Aspects of the state.
observedGeneration int64 The generation that this is said of.
readyReplicas int32 How many pods are ready.
replicas int32 How many pods there are.
terminatingReplicas int32 How many pods are ending.
unavailableReplicas int32 How many pods are missing.
updatedReplicas int32 How many pods have the present pattern.

ReplicaSet A number of pods of one pattern.
spec ReplicaSetSpec What it is to be.
status ReplicaSetStatus What it is.

ReplicaSetSpec What a replica set is to be.
minReadySeconds int32 For how many seconds a pod must be ready to count.
replicas int32 How many pods there are.
selector* LabelSelector Which pods belong to it.
template PodTemplateSpec The pattern of the pods.

ReplicaSetStatus What a replica set is.
availableReplicas int32 How many pods are available.
conditions []Condition:type Aspects of the state.
fullyLabeledReplicas int32 How many pods have all labels.
observedGeneration int64 The generation that this is said of.
readyReplicas int32 How many pods are ready.
replicas* int32 How many pods there are.
terminatingReplicas int32 How many pods are ending.

StatefulSet Pods of one pattern with names and volumes that stay.
spec StatefulSetSpec What it is to be.
status any What it is.

StatefulSetSpec What a stateful set is to be.
minReadySeconds int32 For how many seconds a pod must be ready to count.
ordinals any How the pods are numbered.
persistentVolumeClaimRetentionPolicy any What becomes of the claims.
podManagementPolicy string OrderedReady or Parallel.
replicas int32 How many pods there are.
revisionHistoryLimit int32 How many older patterns are kept.
selector* LabelSelector Which pods belong to it.
serviceName string The service that names the pods.
template* PodTemplateSpec The pattern of the pods.
updateStrategy any How pods are replaced.
volumeClaimTemplates any The patterns of the claims.

DaemonSet A pod of one pattern on every node.
spec DaemonSetSpec What it is to be.
status any What it is.

DaemonSetSpec What a daemon set is to be.
minReadySeconds int32 For how many seconds a pod must be ready to count.
revisionHistoryLimit int32 How many older patterns are kept.
selector* LabelSelector Which pods belong to it.
template* PodTemplateSpec The pattern of the pods.
updateStrategy any How pods are replaced.

Job Pods that are to succeed.
spec JobSpec What is to be done.
status JobStatus What was done.

JobSpec What is to be done.
activeDeadlineSeconds int64 How many seconds the job may run.
backoffLimit int32 How many failures there may be.
backoffLimitPerIndex int32 How many failures there may be of each index.
completionMode string NonIndexed or Indexed.
completions int32 How many pods are to succeed.
managedBy string Who runs the job.
manualSelector boolean Whether the selector is the user's own.
maxFailedIndexes int32 How many indices may fail.
parallelism int32 How many pods may run at a time.
podFailurePolicy any What failures mean.
podReplacementPolicy string When failed pods are replaced.
selector LabelSelector Which pods belong to it.
successPolicy any What success means.
suspend boolean Whether no pods are made.
template* PodTemplateSpec The pattern of the pods.
ttlSecondsAfterFinished int32 After how many seconds a finished job goes.

JobStatus What was done.
active int32 How many pods run.
completedIndexes string Which indices have succeeded.
completionTime Time When the job has succeeded.
conditions []Condition:type Aspects of the state.
failed int32 How many pods have failed.
failedIndexes string Which indices have failed.
ready int32 How many pods are ready.
startTime Time When the job has begun.
succeeded int32 How many pods have succeeded.
terminating int32 How many pods are ending.
uncountedTerminatedPods any Pods that are not counted yet.

CronJob Jobs by the clock.
spec CronJobSpec What is to be done, and when.
status any What was done.

CronJobSpec What is to be done, and when.
concurrencyPolicy string Allow, Forbid, or Replace.
failedJobsHistoryLimit int32 How many failed jobs are kept.
jobTemplate* any The pattern of the jobs.
schedule* string When, as in cron.
startingDeadlineSeconds int64 How many seconds late a job may begin.
successfulJobsHistoryLimit int32 How many jobs that have succeeded are kept.
suspend boolean Whether no jobs are made.
timeZone string The time zone of the schedule.

Service A name and an address for pods.
spec ServiceSpec What the service is to be.
status any What the service is.

ServiceSpec What a service is to be.
allocateLoadBalancerNodePorts boolean Whether load balancers get ports of nodes.
clusterIP string The address.
clusterIPs []string The addresses.
externalIPs []string Addresses from outside.
externalName string A name from outside.
externalTrafficPolicy string Which pods answer to the outside.
healthCheckNodePort int32 The port at which load balancers ask.
internalTrafficPolicy string Which pods answer to the inside.
ipFamilies []string IPv4 and IPv6.
ipFamilyPolicy string How many families there are.
loadBalancerClass string The kind of the load balancer.
loadBalancerIP string The address of the load balancer.
loadBalancerSourceRanges []string Who may use the load balancer.
ports []ServicePort:port The ports.
publishNotReadyAddresses boolean Whether pods count that are not ready.
selector map[string] Which pods are behind it.
sessionAffinity string ClientIP or None.
sessionAffinityConfig any More of the affinity.
trafficDistribution string Which pods are preferred.
type string ClusterIP, NodePort, LoadBalancer, or ExternalName.

ServicePort A port.
appProtocol string The protocol of the application.
name string The name.
nodePort int32 The number on nodes.
port* int32 The number.
protocol string TCP, UDP, or SCTP.
targetPort intOrString The port of the pods.

core.Event What has happened to an object.
action string What was done.
count int32 How often it has happened.
eventTime MicroTime When it has first happened.
firstTimestamp Time When it has first happened.
involvedObject* ObjectReference The object.
lastTimestamp Time When it has last happened.
message string What to tell people.
reason string Why, in one word.
related ObjectReference Another object.
reportingComponent string Who says so.
reportingInstance string Which of those says so.
series any How often and until when it has happened.
source any Who says so.
type string Normal or Warning.

PersistentVolumeClaim A wish for storage.
spec any What is wished for.
status any What was got.

Node A machine.
spec any What the node is to be.
status any What the node is.

CustomResourceDefinition A kind of one's own.
spec* any What the kind is like.
status any What has become of it.

autoscaling.Scale The number of pods.
apiVersion string The version of the object.
kind string The kind of the object.
metadata ObjectMeta What all objects have.
spec ScaleSpec How many there are to be.
status ScaleStatus How many there are.

autoscaling.ScaleSpec How many there are to be.
replicas int32 The number.

autoscaling.ScaleStatus How many there are.
replicas* int32 The number.
selector string Which pods are counted.
`

// builtinType is one entry of the table.
type builtinType struct {
	pkg         string // meta, core, or "" for the package of the kind
	description string
	fields      []builtinField
}

type builtinField struct {
	name, typ, mark, description string
	required                     bool
}

var typeTable = sync.OnceValue(func() map[string]builtinType {
	all := make(map[string]builtinType)
	for _, paragraph := range strings.Split(strings.TrimSpace(builtinTypes), "\n\n") {
		head, rest, _ := strings.Cut(paragraph, "\n")
		name, description, _ := strings.Cut(head, " ")
		t := builtinType{description: description}
		if pkg, short, ok := strings.Cut(name, "."); ok {
			t.pkg, name = pkg, short
		}
		for line := range strings.Lines(rest) {
			parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
			f := builtinField{name: parts[0], typ: parts[1], description: parts[2]}
			f.name, f.required = strings.CutSuffix(f.name, "*")
			f.typ, f.mark, _ = strings.Cut(f.typ, ":")
			t.fields = append(t.fields, f)
		}
		all[name] = t
	}
	return all
})

// builtinSchema returns the schema of a built-in kind. What is not known of it may be anything.
func (d *document) builtinSchema(pkg, kind string) map[string]any {
	t, ok := typeTable()[kind]
	if !ok || t.pkg == "core" && !strings.HasPrefix(pkg, "io.k8s.api.core.") {
		return map[string]any{"description": kind + " is a kind of Kubernetes.", "type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	return d.typeSchema(t)
}

func (d *document) typeSchema(t builtinType) map[string]any {
	s := map[string]any{"description": t.description, "type": "object"}
	properties := make(map[string]any, len(t.fields))
	var required []any
	for _, f := range t.fields {
		p := d.fieldSchema(f)
		properties[f.name] = p
		if f.required {
			if f.typ == "string" {
				p["default"] = ""
			}
			required = append(required, f.name)
		}
	}
	if len(properties) > 0 {
		s["properties"] = properties
	}
	if required != nil {
		s["required"] = required
	}
	return s
}

func (d *document) fieldSchema(f builtinField) map[string]any {
	var p map[string]any
	if item, ok := strings.CutPrefix(f.typ, "[]"); ok {
		p = map[string]any{"type": "array", "items": d.itemSchema(item)}
		switch f.mark {
		case "":
			p["x-kubernetes-list-type"] = "atomic"
		case "set":
			p["x-kubernetes-list-type"], p["x-kubernetes-patch-strategy"] = "set", "merge"
		default:
			p["x-kubernetes-list-type"], p["x-kubernetes-list-map-keys"] = "map", []any{f.mark}
			p["x-kubernetes-patch-strategy"], p["x-kubernetes-patch-merge-key"] = "merge", f.mark
			if f.name == "ports" {
				p["x-kubernetes-list-map-keys"] = []any{f.mark, "protocol"}
			}
		}
	} else if value, ok := strings.CutPrefix(f.typ, "map["); ok {
		p = map[string]any{"type": "object", "additionalProperties": d.itemSchema(strings.TrimSuffix(value, "]"))}
	} else {
		p = d.valueSchema(f.typ)
		if ref, ok := p["$ref"]; ok { // a description may not stand beside a reference
			p = map[string]any{"allOf": []any{map[string]any{"$ref": ref}}}
			if f.name == "metadata" || f.name == "spec" || f.name == "status" || f.name == "template" {
				p["default"] = map[string]any{}
			}
		}
	}
	p["description"] = f.description
	return p
}

// itemSchema returns the schema of the items of a list or a map, which have a default where fields have none.
func (d *document) itemSchema(typ string) map[string]any {
	s := d.valueSchema(typ)
	if typ == "string" {
		s["default"] = ""
	}
	if ref, ok := s["$ref"]; ok {
		return map[string]any{"allOf": []any{map[string]any{"$ref": ref}}, "default": map[string]any{}}
	}
	return s
}

// valueSchema returns the schema of a type by its name in the table.
func (d *document) valueSchema(typ string) map[string]any {
	switch typ {
	case "string", "boolean":
		return map[string]any{"type": typ}
	case "int32", "int64":
		return map[string]any{"type": "integer", "format": typ}
	case "byte":
		return map[string]any{"type": "string", "format": "byte"}
	case "quantity":
		return map[string]any{"oneOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "number"}}}
	case "intOrString":
		return map[string]any{"oneOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}, "format": "int-or-string"}
	case "any":
		return map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	}
	name := "io.k8s.api.core.v1." + typ
	switch t := typeTable()[typ]; {
	case t.pkg == "meta":
		name = metaPackage + typ
	case t.pkg == "autoscaling":
		name = "io.k8s.api.autoscaling.v1." + typ
	case strings.HasPrefix(typ, "Deployment"), strings.HasPrefix(typ, "ReplicaSet"), strings.HasPrefix(typ, "StatefulSet"), strings.HasPrefix(typ, "DaemonSet"):
		name = "io.k8s.api.apps.v1." + typ
	case strings.HasPrefix(typ, "Job"), strings.HasPrefix(typ, "CronJob"):
		name = "io.k8s.api.batch.v1." + typ
	case strings.HasPrefix(typ, "Lease"):
		name = "io.k8s.api.coordination.v1." + typ
	}
	d.require(name)
	return d.ref(name)
}

// require adds a schema that is referred to, and those that it refers to.
func (d *document) require(name string) {
	if d.schemas[name] != nil {
		return
	}
	d.schemas[name] = map[string]any{} // for those that refer to themselves
	short := name[strings.LastIndexByte(name, '.')+1:]
	s := d.typeSchema(typeTable()[short])
	switch short {
	case "Time", "MicroTime":
		s["type"], s["format"] = "string", "date-time"
	case "OwnerReference", "LabelSelector", "LocalObjectReference", "ObjectReference":
		s["x-kubernetes-map-type"] = "atomic"
	case "DeleteOptions", "Status":
		s["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind("", "v1", short)}
	case "Scale":
		s["x-kubernetes-group-version-kind"] = []any{unstructured.GroupVersionKind("autoscaling", "v1", short)}
	}
	d.schemas[name] = s
}
