package kopf

// This file is the table of the messages in which clients send the built-in kinds to the in-memory API server. It is made of the types
// of Kubernetes, by a test of the module in the folder e2e.

// protobufFields says what the fields of a message are: the message, and number:name:type for each field. Types are s for a
// string, i for a whole number, b for a boolean, y for bytes, t for a time, T for a finer one, q for a quantity, x for a number or
// string, l for a list of strings in a message of its own, r for JSON, m for a map of strings, n for one of bytes, Q for one of
// quantities, M for one of what follows, and the name of another message; behind [ is a list, and behind ! is what is told even
// if it is zero. Of messages with the same name, all but one have the beginning of their group before it.
const protobufFields = `
AWSElasticBlockStoreVolumeSource 1:volumeID:!s 2:fsType:s 3:partition:i 4:readOnly:b
Affinity 1:nodeAffinity:!NodeAffinity 2:podAffinity:!PodAffinity 3:podAntiAffinity:!PodAntiAffinity
AggregationRule 1:clusterRoleSelectors:[LabelSelector
AppArmorProfile 1:type:!s 2:localhostProfile:!s
AttachedVolume 1:name:!s 2:devicePath:!s
AzureDiskVolumeSource 1:diskName:!s 2:diskURI:!s 3:cachingMode:!s 4:fsType:!s 5:readOnly:!b 6:kind:!s
AzureFilePersistentVolumeSource 1:secretName:!s 2:shareName:!s 3:readOnly:b 4:secretNamespace:!s
AzureFileVolumeSource 1:secretName:!s 2:shareName:!s 3:readOnly:b
Binding 1:metadata:!ObjectMeta 2:target:!ObjectReference
BoundObjectReference 1:kind:s 2:apiVersion:s 3:name:s 4:uid:s
CSIPersistentVolumeSource 1:driver:!s 2:volumeHandle:!s 3:readOnly:b 4:fsType:s 5:volumeAttributes:m 6:controllerPublishSecretRef:!SecretReference 7:nodeStageSecretRef:!SecretReference 8:nodePublishSecretRef:!SecretReference 9:controllerExpandSecretRef:!SecretReference 10:nodeExpandSecretRef:!SecretReference
CSIVolumeSource 1:driver:!s 2:readOnly:!b 3:fsType:!s 4:volumeAttributes:m 5:nodePublishSecretRef:!LocalObjectReference
Capabilities 1:add:[s 2:drop:[s
CephFSPersistentVolumeSource 1:monitors:[s 2:path:s 3:user:s 4:secretFile:s 5:secretRef:!SecretReference 6:readOnly:b
CephFSVolumeSource 1:monitors:[s 2:path:s 3:user:s 4:secretFile:s 5:secretRef:!LocalObjectReference 6:readOnly:b
CinderPersistentVolumeSource 1:volumeID:!s 2:fsType:s 3:readOnly:b 4:secretRef:!SecretReference
CinderVolumeSource 1:volumeID:!s 2:fsType:s 3:readOnly:b 4:secretRef:!LocalObjectReference
ClientIPConfig 1:timeoutSeconds:!i
ClusterRole 1:metadata:!ObjectMeta 2:rules:[PolicyRule 3:aggregationRule:!AggregationRule
ClusterRoleBinding 1:metadata:!ObjectMeta 2:subjects:[Subject 3:roleRef:!RoleRef
ClusterTrustBundleProjection 1:name:!s 2:signerName:!s 3:labelSelector:!LabelSelector 4:path:!s 5:optional:!b
Condition 1:type:!s 2:status:!s 3:observedGeneration:i 4:lastTransitionTime:t 5:reason:!s 6:message:!s
ConfigMap 1:metadata:!ObjectMeta 2:data:m 3:binaryData:n 4:immutable:!b
ConfigMapEnvSource 1::!LocalObjectReference 2:optional:!b
ConfigMapKeySelector 1::!LocalObjectReference 2:key:!s 3:optional:!b
ConfigMapNodeConfigSource 1:namespace:!s 2:name:!s 3:uid:s 4:resourceVersion:s 5:kubeletConfigKey:!s
ConfigMapProjection 1::!LocalObjectReference 2:items:[KeyToPath 4:optional:!b
ConfigMapVolumeSource 1::!LocalObjectReference 2:items:[KeyToPath 3:defaultMode:!i 4:optional:!b
Container 1:name:!s 2:image:s 3:command:[s 4:args:[s 5:workingDir:s 6:ports:[ContainerPort 7:env:[EnvVar 8:resources:!ResourceRequirements 9:volumeMounts:[VolumeMount 10:livenessProbe:!Probe 11:readinessProbe:!Probe 12:lifecycle:!Lifecycle 13:terminationMessagePath:s 14:imagePullPolicy:s 15:securityContext:!SecurityContext 16:stdin:b 17:stdinOnce:b 18:tty:b 19:envFrom:[EnvFromSource 20:terminationMessagePolicy:s 21:volumeDevices:[VolumeDevice 22:startupProbe:!Probe 23:resizePolicy:[ContainerResizePolicy 24:restartPolicy:!s 25:restartPolicyRules:[ContainerRestartRule
ContainerExtendedResourceRequest 1:containerName:!s 2:resourceName:!s 3:requestName:!s
ContainerImage 1:names:[s 2:sizeBytes:i
ContainerPort 1:name:s 2:hostPort:i 3:containerPort:!i 4:protocol:s 5:hostIP:s
ContainerResizePolicy 1:resourceName:!s 2:restartPolicy:!s
ContainerResourceMetricSource 1:name:!s 2:target:!MetricTarget 3:container:!s
ContainerResourceMetricStatus 1:name:!s 2:current:!MetricValueStatus 3:container:!s
ContainerRestartRule 1:action:s 2:exitCodes:!ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes 1:operator:s 2:values:[i
ContainerState 1:waiting:!ContainerStateWaiting 2:running:!ContainerStateRunning 3:terminated:!ContainerStateTerminated
ContainerStateRunning 1:startedAt:t
ContainerStateTerminated 1:exitCode:!i 2:signal:i 3:reason:s 4:message:s 5:startedAt:t 6:finishedAt:t 7:containerID:s
ContainerStateWaiting 1:reason:s 2:message:s
ContainerStatus 1:name:!s 2:state:!ContainerState 3:lastState:!ContainerState 4:ready:!b 5:restartCount:!i 6:image:!s 7:imageID:!s 8:containerID:s 9:started:!b 10:allocatedResources:Q 11:resources:!ResourceRequirements 12:volumeMounts:[VolumeMountStatus 13:user:!ContainerUser 14:allocatedResourcesStatus:[ResourceStatus 15:stopSignal:!s
ContainerUser 1:linux:!LinuxContainerUser
ControllerRevision 1:metadata:!ObjectMeta 2:data:!r 3:revision:!i
CronJob 1:metadata:!ObjectMeta 2:spec:!CronJobSpec 3:status:!CronJobStatus
CronJobSpec 1:schedule:!s 2:startingDeadlineSeconds:!i 3:concurrencyPolicy:s 4:suspend:!b 5:jobTemplate:!JobTemplateSpec 6:successfulJobsHistoryLimit:!i 7:failedJobsHistoryLimit:!i 8:timeZone:!s
CronJobStatus 1:active:[ObjectReference 4:lastScheduleTime:!t 5:lastSuccessfulTime:!t
CrossVersionObjectReference 1:kind:!s 2:name:!s 3:apiVersion:s
DaemonEndpoint 1:Port:!i
DaemonSet 1:metadata:!ObjectMeta 2:spec:!DaemonSetSpec 3:status:!DaemonSetStatus
DaemonSetCondition 1:type:!s 2:status:!s 3:lastTransitionTime:t 4:reason:s 5:message:s
DaemonSetSpec 1:selector:!LabelSelector 2:template:!PodTemplateSpec 3:updateStrategy:!DaemonSetUpdateStrategy 4:minReadySeconds:i 6:revisionHistoryLimit:!i
DaemonSetStatus 1:currentNumberScheduled:!i 2:numberMisscheduled:!i 3:desiredNumberScheduled:!i 4:numberReady:!i 5:observedGeneration:i 6:updatedNumberScheduled:i 7:numberAvailable:i 8:numberUnavailable:i 9:collisionCount:!i 10:conditions:[DaemonSetCondition
DaemonSetUpdateStrategy 1:type:s 2:rollingUpdate:!RollingUpdateDaemonSet
DeleteOptions 1:gracePeriodSeconds:!i 2:preconditions:!Preconditions 3:orphanDependents:!b 4:propagationPolicy:!s 5:dryRun:[s 6:ignoreStoreReadErrorWithClusterBreakingPotential:!b
Deployment 1:metadata:!ObjectMeta 2:spec:!DeploymentSpec 3:status:!DeploymentStatus
DeploymentCondition 1:type:!s 2:status:!s 4:reason:s 5:message:s 6:lastUpdateTime:t 7:lastTransitionTime:t
DeploymentSpec 1:replicas:!i 2:selector:!LabelSelector 3:template:!PodTemplateSpec 4:strategy:!DeploymentStrategy 5:minReadySeconds:i 6:revisionHistoryLimit:!i 7:paused:b 9:progressDeadlineSeconds:!i
DeploymentStatus 1:observedGeneration:i 2:replicas:i 3:updatedReplicas:i 4:availableReplicas:i 5:unavailableReplicas:i 6:conditions:[DeploymentCondition 7:readyReplicas:i 8:collisionCount:!i 9:terminatingReplicas:!i
DeploymentStrategy 1:type:s 2:rollingUpdate:!RollingUpdateDeployment
DownwardAPIProjection 1:items:[DownwardAPIVolumeFile
DownwardAPIVolumeFile 1:path:!s 2:fieldRef:!ObjectFieldSelector 3:resourceFieldRef:!ResourceFieldSelector 4:mode:!i
DownwardAPIVolumeSource 1:items:[DownwardAPIVolumeFile 2:defaultMode:!i
EmptyDirVolumeSource 1:medium:s 2:sizeLimit:!q
Endpoint 1:addresses:[s 2:conditions:!EndpointConditions 3:hostname:!s 4:targetRef:!ObjectReference 5:deprecatedTopology:m 6:nodeName:!s 7:zone:!s 8:hints:!EndpointHints
EndpointAddress 1:ip:!s 2:targetRef:!ObjectReference 3:hostname:s 4:nodeName:!s
EndpointConditions 1:ready:!b 2:serving:!b 3:terminating:!b
EndpointHints 1:forZones:[ForZone 2:forNodes:[ForNode
EndpointPort 1:name:s 2:port:!i 3:protocol:s 4:appProtocol:!s
EndpointSlice 1:metadata:!ObjectMeta 2:endpoints:[Endpoint 3:ports:[discovery.EndpointPort 4:addressType:!s
EndpointSubset 1:addresses:[EndpointAddress 2:notReadyAddresses:[EndpointAddress 3:ports:[EndpointPort
Endpoints 1:metadata:!ObjectMeta 2:subsets:[EndpointSubset
EnvFromSource 1:prefix:s 2:configMapRef:!ConfigMapEnvSource 3:secretRef:!SecretEnvSource
EnvVar 1:name:!s 2:value:s 3:valueFrom:!EnvVarSource
EnvVarSource 1:fieldRef:!ObjectFieldSelector 2:resourceFieldRef:!ResourceFieldSelector 3:configMapKeyRef:!ConfigMapKeySelector 4:secretKeyRef:!SecretKeySelector 5:fileKeyRef:!FileKeySelector
EphemeralContainer 1::!EphemeralContainerCommon 2:targetContainerName:s
EphemeralContainerCommon 1:name:!s 2:image:s 3:command:[s 4:args:[s 5:workingDir:s 6:ports:[ContainerPort 7:env:[EnvVar 8:resources:!ResourceRequirements 9:volumeMounts:[VolumeMount 10:livenessProbe:!Probe 11:readinessProbe:!Probe 12:lifecycle:!Lifecycle 13:terminationMessagePath:s 14:imagePullPolicy:s 15:securityContext:!SecurityContext 16:stdin:b 17:stdinOnce:b 18:tty:b 19:envFrom:[EnvFromSource 20:terminationMessagePolicy:s 21:volumeDevices:[VolumeDevice 22:startupProbe:!Probe 23:resizePolicy:[ContainerResizePolicy 24:restartPolicy:!s 25:restartPolicyRules:[ContainerRestartRule
EphemeralVolumeSource 1:volumeClaimTemplate:!PersistentVolumeClaimTemplate
Event 1:metadata:!ObjectMeta 2:involvedObject:!ObjectReference 3:reason:s 4:message:s 5:source:!EventSource 6:firstTimestamp:t 7:lastTimestamp:t 8:count:i 9:type:s 10:eventTime:T 11:series:!EventSeries 12:action:s 13:related:!ObjectReference 14:reportingComponent:!s 15:reportingInstance:!s
EventSeries 1:count:i 2:lastObservedTime:T
EventSource 1:component:s 2:host:s
Eviction 1:metadata:!ObjectMeta 2:deleteOptions:!DeleteOptions
ExecAction 1:command:[s
ExternalMetricSource 1:metric:!MetricIdentifier 2:target:!MetricTarget
ExternalMetricStatus 1:metric:!MetricIdentifier 2:current:!MetricValueStatus
FCVolumeSource 1:targetWWNs:[s 2:lun:!i 3:fsType:s 4:readOnly:b 5:wwids:[s
FieldSelectorAttributes 1:rawSelector:s 2:requirements:[FieldSelectorRequirement
FieldSelectorRequirement 1:key:!s 2:operator:!s 3:values:[s
FileKeySelector 1:volumeName:!s 2:path:!s 3:key:!s 4:optional:!b
FlexPersistentVolumeSource 1:driver:!s 2:fsType:s 3:secretRef:!SecretReference 4:readOnly:b 5:options:m
FlexVolumeSource 1:driver:!s 2:fsType:s 3:secretRef:!LocalObjectReference 4:readOnly:b 5:options:m
FlockerVolumeSource 1:datasetName:s 2:datasetUUID:s
ForNode 1:name:!s
ForZone 1:name:!s
GCEPersistentDiskVolumeSource 1:pdName:!s 2:fsType:s 3:partition:i 4:readOnly:b
GRPCAction 1:port:!i 2:service:!s
GitRepoVolumeSource 1:repository:!s 2:revision:s 3:directory:s
GlusterfsPersistentVolumeSource 1:endpoints:!s 2:path:!s 3:readOnly:b 4:endpointsNamespace:!s
GlusterfsVolumeSource 1:endpoints:!s 2:path:!s 3:readOnly:b
HPAScalingPolicy 1:type:!s 2:value:!i 3:periodSeconds:!i
HPAScalingRules 1:selectPolicy:!s 2:policies:[HPAScalingPolicy 3:stabilizationWindowSeconds:!i 4:tolerance:!q
HTTPGetAction 1:path:s 2:port:!x 3:host:s 4:scheme:s 5:httpHeaders:[HTTPHeader
HTTPHeader 1:name:!s 2:value:!s
HTTPIngressPath 1:path:s 2:backend:!IngressBackend 3:pathType:!s
HTTPIngressRuleValue 1:paths:[HTTPIngressPath
HorizontalPodAutoscaler 1:metadata:!ObjectMeta 2:spec:!HorizontalPodAutoscalerSpec 3:status:!HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerBehavior 1:scaleUp:!HPAScalingRules 2:scaleDown:!HPAScalingRules
HorizontalPodAutoscalerCondition 1:type:!s 2:status:!s 3:lastTransitionTime:t 4:reason:s 5:message:s
HorizontalPodAutoscalerSpec 1:scaleTargetRef:!CrossVersionObjectReference 2:minReplicas:!i 3:maxReplicas:!i 4:metrics:[MetricSpec 5:behavior:!HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus 1:observedGeneration:!i 2:lastScaleTime:!t 3:currentReplicas:i 4:desiredReplicas:!i 5:currentMetrics:[MetricStatus 6:conditions:[HorizontalPodAutoscalerCondition
HostAlias 1:ip:!s 2:hostnames:[s
HostIP 1:ip:!s
HostPathVolumeSource 1:path:!s 2:type:!s
IPBlock 1:cidr:!s 2:except:[s
ISCSIPersistentVolumeSource 1:targetPortal:!s 2:iqn:!s 3:lun:!i 4:iscsiInterface:s 5:fsType:s 6:readOnly:b 7:portals:[s 8:chapAuthDiscovery:b 10:secretRef:!SecretReference 11:chapAuthSession:b 12:initiatorName:!s
ISCSIVolumeSource 1:targetPortal:!s 2:iqn:!s 3:lun:!i 4:iscsiInterface:s 5:fsType:s 6:readOnly:b 7:portals:[s 8:chapAuthDiscovery:b 10:secretRef:!LocalObjectReference 11:chapAuthSession:b 12:initiatorName:!s
ImageVolumeSource 1:reference:s 2:pullPolicy:s
ImageVolumeStatus 1:imageRef:s
Ingress 1:metadata:!ObjectMeta 2:spec:!IngressSpec 3:status:!IngressStatus
IngressBackend 3:resource:!TypedLocalObjectReference 4:service:!IngressServiceBackend
IngressClass 1:metadata:!ObjectMeta 2:spec:!IngressClassSpec
IngressClassParametersReference 1:apiGroup:!s 2:kind:!s 3:name:!s 4:scope:!s 5:namespace:!s
IngressClassSpec 1:controller:s 2:parameters:!IngressClassParametersReference
IngressLoadBalancerIngress 1:ip:s 2:hostname:s 4:ports:[IngressPortStatus
IngressLoadBalancerStatus 1:ingress:[IngressLoadBalancerIngress
IngressPortStatus 1:port:!i 2:protocol:!s 3:error:!s
IngressRule 1:host:s 2::!IngressRuleValue
IngressRuleValue 1:http:!HTTPIngressRuleValue
IngressServiceBackend 1:name:!s 2:port:!ServiceBackendPort
IngressSpec 1:defaultBackend:!IngressBackend 2:tls:[IngressTLS 3:rules:[IngressRule 4:ingressClassName:!s
IngressStatus 1:loadBalancer:!IngressLoadBalancerStatus
IngressTLS 1:hosts:[s 2:secretName:s
Job 1:metadata:!ObjectMeta 2:spec:!JobSpec 3:status:!JobStatus
JobCondition 1:type:!s 2:status:!s 3:lastProbeTime:t 4:lastTransitionTime:t 5:reason:s 6:message:s
JobSpec 1:parallelism:!i 2:completions:!i 3:activeDeadlineSeconds:!i 4:selector:!LabelSelector 5:manualSelector:!b 6:template:!PodTemplateSpec 7:backoffLimit:!i 8:ttlSecondsAfterFinished:!i 9:completionMode:!s 10:suspend:!b 11:podFailurePolicy:!PodFailurePolicy 12:backoffLimitPerIndex:!i 13:maxFailedIndexes:!i 14:podReplacementPolicy:!s 15:managedBy:!s 16:successPolicy:!SuccessPolicy
JobStatus 1:conditions:[JobCondition 2:startTime:!t 3:completionTime:!t 4:active:i 5:succeeded:i 6:failed:i 7:completedIndexes:s 8:uncountedTerminatedPods:!UncountedTerminatedPods 9:ready:!i 10:failedIndexes:!s 11:terminating:!i
JobTemplateSpec 1:metadata:!ObjectMeta 2:spec:!JobSpec
KeyToPath 1:key:!s 2:path:!s 3:mode:!i
LabelSelector 1:matchLabels:m 2:matchExpressions:[LabelSelectorRequirement
LabelSelectorAttributes 1:rawSelector:s 2:requirements:[LabelSelectorRequirement
LabelSelectorRequirement 1:key:!s 2:operator:!s 3:values:[s
Lease 1:metadata:!ObjectMeta 2:spec:!LeaseSpec
LeaseSpec 1:holderIdentity:!s 2:leaseDurationSeconds:!i 3:acquireTime:!T 4:renewTime:!T 5:leaseTransitions:!i 6:strategy:!s 7:preferredHolder:!s
Lifecycle 1:postStart:!LifecycleHandler 2:preStop:!LifecycleHandler 3:stopSignal:!s
LifecycleHandler 1:exec:!ExecAction 2:httpGet:!HTTPGetAction 3:tcpSocket:!TCPSocketAction 4:sleep:!SleepAction
LimitRange 1:metadata:!ObjectMeta 2:spec:!LimitRangeSpec
LimitRangeItem 1:type:!s 2:max:Q 3:min:Q 4:default:Q 5:defaultRequest:Q 6:maxLimitRequestRatio:Q
LimitRangeSpec 1:limits:[LimitRangeItem
LinuxContainerUser 1:uid:!i 2:gid:!i 3:supplementalGroups:[i
LoadBalancerIngress 1:ip:s 2:hostname:s 3:ipMode:!s 4:ports:[PortStatus
LoadBalancerStatus 1:ingress:[LoadBalancerIngress
LocalObjectReference 1:name:s
LocalSubjectAccessReview 1:metadata:!ObjectMeta 2:spec:!SubjectAccessReviewSpec 3:status:!SubjectAccessReviewStatus
LocalVolumeSource 1:path:!s 2:fsType:!s
ManagedFieldsEntry 1:manager:s 2:operation:s 3:apiVersion:s 4:time:!t 6:fieldsType:s 7:fieldsV1:!r 8:subresource:s
MatchCondition 1:name:!s 2:expression:!s
MetricIdentifier 1:name:!s 2:selector:!LabelSelector
MetricSpec 1:type:!s 2:object:!ObjectMetricSource 3:pods:!PodsMetricSource 4:resource:!ResourceMetricSource 5:external:!ExternalMetricSource 7:containerResource:!ContainerResourceMetricSource
MetricStatus 1:type:!s 2:object:!ObjectMetricStatus 3:pods:!PodsMetricStatus 4:resource:!ResourceMetricStatus 5:external:!ExternalMetricStatus 7:containerResource:!ContainerResourceMetricStatus
MetricTarget 1:type:!s 2:value:!q 3:averageValue:!q 4:averageUtilization:!i
MetricValueStatus 1:value:!q 2:averageValue:!q 3:averageUtilization:!i
ModifyVolumeStatus 1:targetVolumeAttributesClassName:s 2:status:!s
MutatingWebhook 1:name:!s 2:clientConfig:!WebhookClientConfig 3:rules:[RuleWithOperations 4:failurePolicy:!s 5:namespaceSelector:!LabelSelector 6:sideEffects:!s 7:timeoutSeconds:!i 8:admissionReviewVersions:[s 9:matchPolicy:!s 10:reinvocationPolicy:!s 11:objectSelector:!LabelSelector 12:matchConditions:[MatchCondition
MutatingWebhookConfiguration 1:metadata:!ObjectMeta 2:webhooks:[MutatingWebhook
NFSVolumeSource 1:server:!s 2:path:!s 3:readOnly:b
Namespace 1:metadata:!ObjectMeta 2:spec:!NamespaceSpec 3:status:!NamespaceStatus
NamespaceCondition 1:type:!s 2:status:!s 4:lastTransitionTime:t 5:reason:s 6:message:s
NamespaceSpec 1:finalizers:[s
NamespaceStatus 1:phase:s 2:conditions:[NamespaceCondition
NetworkPolicy 1:metadata:!ObjectMeta 2:spec:!NetworkPolicySpec
NetworkPolicyEgressRule 1:ports:[NetworkPolicyPort 2:to:[NetworkPolicyPeer
NetworkPolicyIngressRule 1:ports:[NetworkPolicyPort 2:from:[NetworkPolicyPeer
NetworkPolicyPeer 1:podSelector:!LabelSelector 2:namespaceSelector:!LabelSelector 3:ipBlock:!IPBlock
NetworkPolicyPort 1:protocol:!s 2:port:!x 3:endPort:!i
NetworkPolicySpec 1:podSelector:!LabelSelector 2:ingress:[NetworkPolicyIngressRule 3:egress:[NetworkPolicyEgressRule 4:policyTypes:[s
Node 1:metadata:!ObjectMeta 2:spec:!NodeSpec 3:status:!NodeStatus
NodeAddress 1:type:!s 2:address:!s
NodeAffinity 1:requiredDuringSchedulingIgnoredDuringExecution:!NodeSelector 2:preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm
NodeAllocatableResourceClaimStatus 1:resourceClaimName:!s 2:containers:[s 3:resources:Q
NodeCondition 1:type:!s 2:status:!s 3:lastHeartbeatTime:t 4:lastTransitionTime:t 5:reason:s 6:message:s
NodeConfigSource 2:configMap:!ConfigMapNodeConfigSource
NodeConfigStatus 1:assigned:!NodeConfigSource 2:active:!NodeConfigSource 3:lastKnownGood:!NodeConfigSource 4:error:s
NodeDaemonEndpoints 1:kubeletEndpoint:!DaemonEndpoint
NodeFeatures 1:supplementalGroupsPolicy:!b
NodeRuntimeHandler 1:name:!s 2:features:!NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures 1:recursiveReadOnlyMounts:!b 2:userNamespaces:!b
NodeSelector 1:nodeSelectorTerms:[NodeSelectorTerm
NodeSelectorRequirement 1:key:!s 2:operator:!s 3:values:[s
NodeSelectorTerm 1:matchExpressions:[NodeSelectorRequirement 2:matchFields:[NodeSelectorRequirement
NodeSpec 1:podCIDR:s 2:externalID:s 3:providerID:s 4:unschedulable:b 5:taints:[Taint 6:configSource:!NodeConfigSource 7:podCIDRs:[s
NodeStatus 1:capacity:Q 2:allocatable:Q 3:phase:s 4:conditions:[NodeCondition 5:addresses:[NodeAddress 6:daemonEndpoints:!NodeDaemonEndpoints 7:nodeInfo:!NodeSystemInfo 8:images:[ContainerImage 9:volumesInUse:[s 10:volumesAttached:[AttachedVolume 11:config:!NodeConfigStatus 12:runtimeHandlers:[NodeRuntimeHandler 13:features:!NodeFeatures 14:declaredFeatures:[s
NodeSwapStatus 1:capacity:!i
NodeSystemInfo 1:machineID:!s 2:systemUUID:!s 3:bootID:!s 4:kernelVersion:!s 5:osImage:!s 6:containerRuntimeVersion:!s 7:kubeletVersion:!s 8:kubeProxyVersion:!s 9:operatingSystem:!s 10:architecture:!s 11:swap:!NodeSwapStatus
NonResourceAttributes 1:path:s 2:verb:s
NonResourceRule 1:verbs:[s 2:nonResourceURLs:[s
ObjectFieldSelector 1:apiVersion:s 2:fieldPath:!s
ObjectMeta 1:name:s 2:generateName:s 3:namespace:s 4:selfLink:s 5:uid:s 6:resourceVersion:s 7:generation:i 8:creationTimestamp:t 9:deletionTimestamp:!t 10:deletionGracePeriodSeconds:!i 11:labels:m 12:annotations:m 13:ownerReferences:[OwnerReference 14:finalizers:[s 17:managedFields:[ManagedFieldsEntry
ObjectMetricSource 1:describedObject:!CrossVersionObjectReference 2:target:!MetricTarget 3:metric:!MetricIdentifier
ObjectMetricStatus 1:metric:!MetricIdentifier 2:current:!MetricValueStatus 3:describedObject:!CrossVersionObjectReference
ObjectReference 1:kind:s 2:namespace:s 3:name:s 4:uid:s 5:apiVersion:s 6:resourceVersion:s 7:fieldPath:s
Overhead 1:podFixed:Q
OwnerReference 1:kind:!s 3:name:!s 4:uid:!s 5:apiVersion:!s 6:controller:!b 7:blockOwnerDeletion:!b
PersistentVolume 1:metadata:!ObjectMeta 2:spec:!PersistentVolumeSpec 3:status:!PersistentVolumeStatus
PersistentVolumeClaim 1:metadata:!ObjectMeta 2:spec:!PersistentVolumeClaimSpec 3:status:!PersistentVolumeClaimStatus
PersistentVolumeClaimCondition 1:type:!s 2:status:!s 3:lastProbeTime:t 4:lastTransitionTime:t 5:reason:s 6:message:s
PersistentVolumeClaimSpec 1:accessModes:[s 2:resources:!VolumeResourceRequirements 3:volumeName:s 4:selector:!LabelSelector 5:storageClassName:!s 6:volumeMode:!s 7:dataSource:!TypedLocalObjectReference 8:dataSourceRef:!TypedObjectReference 9:volumeAttributesClassName:!s
PersistentVolumeClaimStatus 1:phase:s 2:accessModes:[s 3:capacity:Q 4:conditions:[PersistentVolumeClaimCondition 5:allocatedResources:Q 7:allocatedResourceStatuses:m 8:currentVolumeAttributesClassName:!s 9:modifyVolumeStatus:!ModifyVolumeStatus
PersistentVolumeClaimTemplate 1:metadata:!ObjectMeta 2:spec:!PersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource 1:claimName:!s 2:readOnly:b
PersistentVolumeSource 1:gcePersistentDisk:!GCEPersistentDiskVolumeSource 2:awsElasticBlockStore:!AWSElasticBlockStoreVolumeSource 3:hostPath:!HostPathVolumeSource 4:glusterfs:!GlusterfsPersistentVolumeSource 5:nfs:!NFSVolumeSource 6:rbd:!RBDPersistentVolumeSource 7:iscsi:!ISCSIPersistentVolumeSource 8:cinder:!CinderPersistentVolumeSource 9:cephfs:!CephFSPersistentVolumeSource 10:fc:!FCVolumeSource 11:flocker:!FlockerVolumeSource 12:flexVolume:!FlexPersistentVolumeSource 13:azureFile:!AzureFilePersistentVolumeSource 14:vsphereVolume:!VsphereVirtualDiskVolumeSource 15:quobyte:!QuobyteVolumeSource 16:azureDisk:!AzureDiskVolumeSource 17:photonPersistentDisk:!PhotonPersistentDiskVolumeSource 18:portworxVolume:!PortworxVolumeSource 19:scaleIO:!ScaleIOPersistentVolumeSource 20:local:!LocalVolumeSource 21:storageos:!StorageOSPersistentVolumeSource 22:csi:!CSIPersistentVolumeSource
PersistentVolumeSpec 1:capacity:Q 2::!PersistentVolumeSource 3:accessModes:[s 4:claimRef:!ObjectReference 5:persistentVolumeReclaimPolicy:s 6:storageClassName:s 7:mountOptions:[s 8:volumeMode:!s 9:nodeAffinity:!VolumeNodeAffinity 10:volumeAttributesClassName:!s
PersistentVolumeStatus 1:phase:s 2:message:s 3:reason:s 4:lastPhaseTransitionTime:!t
PhotonPersistentDiskVolumeSource 1:pdID:!s 2:fsType:s
Pod 1:metadata:!ObjectMeta 2:spec:!PodSpec 3:status:!PodStatus
PodAffinity 1:requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm 2:preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm
PodAffinityTerm 1:labelSelector:!LabelSelector 2:namespaces:[s 3:topologyKey:!s 4:namespaceSelector:!LabelSelector 5:matchLabelKeys:[s 6:mismatchLabelKeys:[s
PodAntiAffinity 1:requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm 2:preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm
PodCertificateProjection 1:signerName:s 2:keyType:s 3:maxExpirationSeconds:!i 4:credentialBundlePath:s 5:keyPath:s 6:certificateChainPath:s 7:userAnnotations:m
PodCondition 1:type:!s 2:status:!s 3:lastProbeTime:t 4:lastTransitionTime:t 5:reason:s 6:message:s 7:observedGeneration:i
PodDNSConfig 1:nameservers:[s 2:searches:[s 3:options:[PodDNSConfigOption
PodDNSConfigOption 1:name:s 2:value:!s
PodDisruptionBudget 1:metadata:!ObjectMeta 2:spec:!PodDisruptionBudgetSpec 3:status:!PodDisruptionBudgetStatus
PodDisruptionBudgetSpec 1:minAvailable:!x 2:selector:!LabelSelector 3:maxUnavailable:!x 4:unhealthyPodEvictionPolicy:!s
PodDisruptionBudgetStatus 1:observedGeneration:i 2:disruptedPods:Mt 3:disruptionsAllowed:!i 4:currentHealthy:!i 5:desiredHealthy:!i 6:expectedPods:!i 7:conditions:[Condition
PodExtendedResourceClaimStatus 1:requestMappings:[ContainerExtendedResourceRequest 2:resourceClaimName:!s
PodFailurePolicy 1:rules:[PodFailurePolicyRule
PodFailurePolicyOnExitCodesRequirement 1:containerName:!s 2:operator:!s 3:values:[i
PodFailurePolicyOnPodConditionsPattern 1:type:!s 2:status:!s
PodFailurePolicyRule 1:action:!s 2:onExitCodes:!PodFailurePolicyOnExitCodesRequirement 3:onPodConditions:[PodFailurePolicyOnPodConditionsPattern
PodIP 1:ip:!s
PodOS 1:name:!s
PodReadinessGate 1:conditionType:!s
PodResourceClaim 1:name:!s 3:resourceClaimName:!s 4:resourceClaimTemplateName:!s
PodResourceClaimStatus 1:name:!s 2:resourceClaimName:!s
PodSchedulingGate 1:name:!s
PodSchedulingGroup 1:podGroupName:!s
PodSecurityContext 1:seLinuxOptions:!SELinuxOptions 2:runAsUser:!i 3:runAsNonRoot:!b 4:supplementalGroups:[i 5:fsGroup:!i 6:runAsGroup:!i 7:sysctls:[Sysctl 8:windowsOptions:!WindowsSecurityContextOptions 9:fsGroupChangePolicy:!s 10:seccompProfile:!SeccompProfile 11:appArmorProfile:!AppArmorProfile 12:supplementalGroupsPolicy:!s 13:seLinuxChangePolicy:!s
PodSpec 1:volumes:[Volume 2:containers:[Container 3:restartPolicy:s 4:terminationGracePeriodSeconds:!i 5:activeDeadlineSeconds:!i 6:dnsPolicy:s 7:nodeSelector:m 8:serviceAccountName:s 9:serviceAccount:s 10:nodeName:s 11:hostNetwork:b 12:hostPID:b 13:hostIPC:b 14:securityContext:!PodSecurityContext 15:imagePullSecrets:[LocalObjectReference 16:hostname:s 17:subdomain:s 18:affinity:!Affinity 19:schedulerName:s 20:initContainers:[Container 21:automountServiceAccountToken:!b 22:tolerations:[Toleration 23:hostAliases:[HostAlias 24:priorityClassName:s 25:priority:!i 26:dnsConfig:!PodDNSConfig 27:shareProcessNamespace:!b 28:readinessGates:[PodReadinessGate 29:runtimeClassName:!s 30:enableServiceLinks:!b 31:preemptionPolicy:!s 32:overhead:Q 33:topologySpreadConstraints:[TopologySpreadConstraint 34:ephemeralContainers:[EphemeralContainer 35:setHostnameAsFQDN:!b 36:os:!PodOS 37:hostUsers:!b 38:schedulingGates:[PodSchedulingGate 39:resourceClaims:[PodResourceClaim 40:resources:!ResourceRequirements 41:hostnameOverride:!s 43:schedulingGroup:!PodSchedulingGroup
PodStatus 1:phase:s 2:conditions:[PodCondition 3:message:s 4:reason:s 5:hostIP:s 6:podIP:s 7:startTime:!t 8:containerStatuses:[ContainerStatus 9:qosClass:s 10:initContainerStatuses:[ContainerStatus 11:nominatedNodeName:s 12:podIPs:[PodIP 13:ephemeralContainerStatuses:[ContainerStatus 14:resize:s 15:resourceClaimStatuses:[PodResourceClaimStatus 16:hostIPs:[HostIP 17:observedGeneration:i 18:extendedResourceClaimStatus:!PodExtendedResourceClaimStatus 19:allocatedResources:Q 20:resources:!ResourceRequirements 21:nodeAllocatableResourceClaimStatuses:[NodeAllocatableResourceClaimStatus
PodTemplate 1:metadata:!ObjectMeta 2:template:!PodTemplateSpec
PodTemplateSpec 1:metadata:!ObjectMeta 2:spec:!PodSpec
PodsMetricSource 1:metric:!MetricIdentifier 2:target:!MetricTarget
PodsMetricStatus 1:metric:!MetricIdentifier 2:current:!MetricValueStatus
PolicyRule 1:verbs:[s 2:apiGroups:[s 3:resources:[s 4:resourceNames:[s 5:nonResourceURLs:[s
PortStatus 1:port:!i 2:protocol:!s 3:error:!s
PortworxVolumeSource 1:volumeID:!s 2:fsType:s 3:readOnly:b
Preconditions 1:uid:!s 2:resourceVersion:!s
PreferredSchedulingTerm 1:weight:!i 2:preference:!NodeSelectorTerm
PriorityClass 1:metadata:!ObjectMeta 2:value:!i 3:globalDefault:b 4:description:s 5:preemptionPolicy:!s
Probe 1::!ProbeHandler 2:initialDelaySeconds:i 3:timeoutSeconds:i 4:periodSeconds:i 5:successThreshold:i 6:failureThreshold:i 7:terminationGracePeriodSeconds:!i
ProbeHandler 1:exec:!ExecAction 2:httpGet:!HTTPGetAction 3:tcpSocket:!TCPSocketAction 4:grpc:!GRPCAction
ProjectedVolumeSource 1:sources:[VolumeProjection 2:defaultMode:!i
QuobyteVolumeSource 1:registry:!s 2:volume:!s 3:readOnly:b 4:user:s 5:group:s 6:tenant:s
RBDPersistentVolumeSource 1:monitors:[s 2:image:!s 3:fsType:s 4:pool:s 5:user:s 6:keyring:s 7:secretRef:!SecretReference 8:readOnly:b
RBDVolumeSource 1:monitors:[s 2:image:!s 3:fsType:s 4:pool:s 5:user:s 6:keyring:s 7:secretRef:!LocalObjectReference 8:readOnly:b
ReplicaSet 1:metadata:!ObjectMeta 2:spec:!ReplicaSetSpec 3:status:!ReplicaSetStatus
ReplicaSetCondition 1:type:!s 2:status:!s 3:lastTransitionTime:t 4:reason:s 5:message:s
ReplicaSetSpec 1:replicas:!i 2:selector:!LabelSelector 3:template:!PodTemplateSpec 4:minReadySeconds:i
ReplicaSetStatus 1:replicas:!i 2:fullyLabeledReplicas:i 3:observedGeneration:i 4:readyReplicas:i 5:availableReplicas:i 6:conditions:[ReplicaSetCondition 7:terminatingReplicas:!i
ReplicationController 1:metadata:!ObjectMeta 2:spec:!ReplicationControllerSpec 3:status:!ReplicationControllerStatus
ReplicationControllerCondition 1:type:!s 2:status:!s 3:lastTransitionTime:t 4:reason:s 5:message:s
ReplicationControllerSpec 1:replicas:!i 2:selector:m 3:template:!PodTemplateSpec 4:minReadySeconds:i
ReplicationControllerStatus 1:replicas:!i 2:fullyLabeledReplicas:i 3:observedGeneration:i 4:readyReplicas:i 5:availableReplicas:i 6:conditions:[ReplicationControllerCondition
ResourceAttributes 1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s 6:subresource:s 7:name:s 8:fieldSelector:!FieldSelectorAttributes 9:labelSelector:!LabelSelectorAttributes
ResourceClaim 1:name:!s 2:request:s
ResourceFieldSelector 1:containerName:s 2:resource:!s 3:divisor:!q
ResourceHealth 1:resourceID:!s 2:health:s 6:message:!s
ResourceMetricSource 1:name:!s 2:target:!MetricTarget
ResourceMetricStatus 1:name:!s 2:current:!MetricValueStatus
ResourceQuota 1:metadata:!ObjectMeta 2:spec:!ResourceQuotaSpec 3:status:!ResourceQuotaStatus
ResourceQuotaSpec 1:hard:Q 2:scopes:[s 3:scopeSelector:!ScopeSelector
ResourceQuotaStatus 1:hard:Q 2:used:Q
ResourceRequirements 1:limits:Q 2:requests:Q 3:claims:[ResourceClaim
ResourceRule 1:verbs:[s 2:apiGroups:[s 3:resources:[s 4:resourceNames:[s
ResourceStatus 1:name:!s 2:resources:[ResourceHealth
Role 1:metadata:!ObjectMeta 2:rules:[PolicyRule
RoleBinding 1:metadata:!ObjectMeta 2:subjects:[Subject 3:roleRef:!RoleRef
RoleRef 1:apiGroup:!s 2:kind:!s 3:name:!s
RollingUpdateDaemonSet 1:maxUnavailable:!x 2:maxSurge:!x
RollingUpdateDeployment 1:maxUnavailable:!x 2:maxSurge:!x
RollingUpdateStatefulSetStrategy 1:partition:!i 2:maxUnavailable:!x
Rule 1:apiGroups:[s 2:apiVersions:[s 3:resources:[s 4:scope:!s
RuleWithOperations 1:operations:[s 2::!Rule
RuntimeClass 1:metadata:!ObjectMeta 2:handler:!s 3:overhead:!Overhead 4:scheduling:!Scheduling
SELinuxOptions 1:user:s 2:role:s 3:type:s 4:level:s
Scale 1:metadata:!ObjectMeta 2:spec:!ScaleSpec 3:status:!ScaleStatus
ScaleIOPersistentVolumeSource 1:gateway:!s 2:system:!s 3:secretRef:!SecretReference 4:sslEnabled:b 5:protectionDomain:s 6:storagePool:s 7:storageMode:s 8:volumeName:s 9:fsType:s 10:readOnly:b
ScaleIOVolumeSource 1:gateway:!s 2:system:!s 3:secretRef:!LocalObjectReference 4:sslEnabled:b 5:protectionDomain:s 6:storagePool:s 7:storageMode:s 8:volumeName:s 9:fsType:s 10:readOnly:b
ScaleSpec 1:replicas:i
ScaleStatus 1:replicas:!i 2:selector:s
Scheduling 1:nodeSelector:m 2:tolerations:[Toleration
ScopeSelector 1:matchExpressions:[ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement 1:scopeName:!s 2:operator:!s 3:values:[s
SeccompProfile 1:type:!s 2:localhostProfile:!s
Secret 1:metadata:!ObjectMeta 2:data:n 3:type:s 4:stringData:m 5:immutable:!b
SecretEnvSource 1::!LocalObjectReference 2:optional:!b
SecretKeySelector 1::!LocalObjectReference 2:key:!s 3:optional:!b
SecretProjection 1::!LocalObjectReference 2:items:[KeyToPath 4:optional:!b
SecretReference 1:name:s 2:namespace:s
SecretVolumeSource 1:secretName:s 2:items:[KeyToPath 3:defaultMode:!i 4:optional:!b
SecurityContext 1:capabilities:!Capabilities 2:privileged:!b 3:seLinuxOptions:!SELinuxOptions 4:runAsUser:!i 5:runAsNonRoot:!b 6:readOnlyRootFilesystem:!b 7:allowPrivilegeEscalation:!b 8:runAsGroup:!i 9:procMount:!s 10:windowsOptions:!WindowsSecurityContextOptions 11:seccompProfile:!SeccompProfile 12:appArmorProfile:!AppArmorProfile
SelfSubjectAccessReview 1:metadata:!ObjectMeta 2:spec:!SelfSubjectAccessReviewSpec 3:status:!SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec 1:resourceAttributes:!ResourceAttributes 2:nonResourceAttributes:!NonResourceAttributes
SelfSubjectReview 1:metadata:!ObjectMeta 2:status:!SelfSubjectReviewStatus
SelfSubjectReviewStatus 1:userInfo:!UserInfo
SelfSubjectRulesReview 1:metadata:!ObjectMeta 2:spec:!SelfSubjectRulesReviewSpec 3:status:!SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec 1:namespace:s
Service 1:metadata:!ObjectMeta 2:spec:!ServiceSpec 3:status:!ServiceStatus
ServiceAccount 1:metadata:!ObjectMeta 2:secrets:[ObjectReference 3:imagePullSecrets:[LocalObjectReference 4:automountServiceAccountToken:!b
ServiceAccountTokenProjection 1:audience:s 2:expirationSeconds:!i 3:path:!s
ServiceBackendPort 1:name:s 2:number:i
ServicePort 1:name:s 2:protocol:s 3:port:!i 4:targetPort:!x 5:nodePort:i 6:appProtocol:!s
ServiceReference 1:namespace:!s 2:name:!s 3:path:!s 4:port:!i
ServiceSpec 1:ports:[ServicePort 2:selector:m 3:clusterIP:s 4:type:s 5:externalIPs:[s 7:sessionAffinity:s 8:loadBalancerIP:s 9:loadBalancerSourceRanges:[s 10:externalName:s 11:externalTrafficPolicy:s 12:healthCheckNodePort:i 13:publishNotReadyAddresses:b 14:sessionAffinityConfig:!SessionAffinityConfig 17:ipFamilyPolicy:!s 18:clusterIPs:[s 19:ipFamilies:[s 20:allocateLoadBalancerNodePorts:!b 21:loadBalancerClass:!s 22:internalTrafficPolicy:!s 23:trafficDistribution:!s
ServiceStatus 1:loadBalancer:!LoadBalancerStatus 2:conditions:[Condition
SessionAffinityConfig 1:clientIP:!ClientIPConfig
SleepAction 1:seconds:!i
StatefulSet 1:metadata:!ObjectMeta 2:spec:!StatefulSetSpec 3:status:!StatefulSetStatus
StatefulSetCondition 1:type:!s 2:status:!s 3:lastTransitionTime:t 4:reason:s 5:message:s
StatefulSetOrdinals 1:start:!i
StatefulSetPersistentVolumeClaimRetentionPolicy 1:whenDeleted:s 2:whenScaled:s
StatefulSetSpec 1:replicas:!i 2:selector:!LabelSelector 3:template:!PodTemplateSpec 4:volumeClaimTemplates:[PersistentVolumeClaim 5:serviceName:!s 6:podManagementPolicy:s 7:updateStrategy:!StatefulSetUpdateStrategy 8:revisionHistoryLimit:!i 9:minReadySeconds:i 10:persistentVolumeClaimRetentionPolicy:!StatefulSetPersistentVolumeClaimRetentionPolicy 11:ordinals:!StatefulSetOrdinals
StatefulSetStatus 1:observedGeneration:i 2:replicas:!i 3:readyReplicas:i 4:currentReplicas:i 5:updatedReplicas:i 6:currentRevision:s 7:updateRevision:s 9:collisionCount:!i 10:conditions:[StatefulSetCondition 11:availableReplicas:!i
StatefulSetUpdateStrategy 1:type:s 2:rollingUpdate:!RollingUpdateStatefulSetStrategy
StorageClass 1:metadata:!ObjectMeta 2:provisioner:!s 3:parameters:m 4:reclaimPolicy:!s 5:mountOptions:[s 6:allowVolumeExpansion:!b 7:volumeBindingMode:!s 8:allowedTopologies:[TopologySelectorTerm
StorageOSPersistentVolumeSource 1:volumeName:s 2:volumeNamespace:s 3:fsType:s 4:readOnly:b 5:secretRef:!ObjectReference
StorageOSVolumeSource 1:volumeName:s 2:volumeNamespace:s 3:fsType:s 4:readOnly:b 5:secretRef:!LocalObjectReference
Subject 1:kind:!s 2:apiGroup:s 3:name:!s 4:namespace:s
SubjectAccessReview 1:metadata:!ObjectMeta 2:spec:!SubjectAccessReviewSpec 3:status:!SubjectAccessReviewStatus
SubjectAccessReviewSpec 1:resourceAttributes:!ResourceAttributes 2:nonResourceAttributes:!NonResourceAttributes 3:user:s 4:groups:[s 5:extra:Ml 6:uid:s
SubjectAccessReviewStatus 1:allowed:!b 2:reason:s 3:evaluationError:s 4:denied:b
SubjectRulesReviewStatus 1:resourceRules:[ResourceRule 2:nonResourceRules:[NonResourceRule 3:incomplete:!b 4:evaluationError:s
SuccessPolicy 1:rules:[SuccessPolicyRule
SuccessPolicyRule 1:succeededIndexes:!s 2:succeededCount:!i
Sysctl 1:name:!s 2:value:!s
TCPSocketAction 1:port:!x 2:host:s
Taint 1:key:!s 2:value:s 3:effect:!s 4:timeAdded:!t
TokenRequest 1:metadata:!ObjectMeta 2:spec:!TokenRequestSpec 3:status:!TokenRequestStatus
TokenRequestSpec 1:audiences:[s 3:boundObjectRef:!BoundObjectReference 4:expirationSeconds:!i
TokenRequestStatus 1:token:!s 2:expirationTimestamp:t
TokenReview 1:metadata:!ObjectMeta 2:spec:!TokenReviewSpec 3:status:!TokenReviewStatus
TokenReviewSpec 1:token:s 2:audiences:[s
TokenReviewStatus 1:authenticated:b 2:user:!UserInfo 3:error:s 4:audiences:[s
Toleration 1:key:s 2:operator:s 3:value:s 4:effect:s 5:tolerationSeconds:!i
TopologySelectorLabelRequirement 1:key:!s 2:values:[s
TopologySelectorTerm 1:matchLabelExpressions:[TopologySelectorLabelRequirement
TopologySpreadConstraint 1:maxSkew:!i 2:topologyKey:!s 3:whenUnsatisfiable:!s 4:labelSelector:!LabelSelector 5:minDomains:!i 6:nodeAffinityPolicy:!s 7:nodeTaintsPolicy:!s 8:matchLabelKeys:[s
TypedLocalObjectReference 1:apiGroup:!s 2:kind:!s 3:name:!s
TypedObjectReference 1:apiGroup:!s 2:kind:!s 3:name:!s 4:namespace:!s
UncountedTerminatedPods 1:succeeded:[s 2:failed:[s
UserInfo 1:username:s 2:uid:s 3:groups:[s 4:extra:Ml
ValidatingWebhook 1:name:!s 2:clientConfig:!WebhookClientConfig 3:rules:[RuleWithOperations 4:failurePolicy:!s 5:namespaceSelector:!LabelSelector 6:sideEffects:!s 7:timeoutSeconds:!i 8:admissionReviewVersions:[s 9:matchPolicy:!s 10:objectSelector:!LabelSelector 11:matchConditions:[MatchCondition
ValidatingWebhookConfiguration 1:metadata:!ObjectMeta 2:webhooks:[ValidatingWebhook
Volume 1:name:!s 2::!VolumeSource
VolumeDevice 1:name:!s 2:devicePath:!s
VolumeMount 1:name:!s 2:readOnly:b 3:mountPath:!s 4:subPath:s 5:mountPropagation:!s 6:subPathExpr:s 7:recursiveReadOnly:!s
VolumeMountStatus 1:name:!s 2:mountPath:!s 3:readOnly:b 4:recursiveReadOnly:!s 5:volumeStatus:!VolumeStatus
VolumeNodeAffinity 1:required:!NodeSelector
VolumeProjection 1:secret:!SecretProjection 2:downwardAPI:!DownwardAPIProjection 3:configMap:!ConfigMapProjection 4:serviceAccountToken:!ServiceAccountTokenProjection 5:clusterTrustBundle:!ClusterTrustBundleProjection 6:podCertificate:!PodCertificateProjection
VolumeResourceRequirements 1:limits:Q 2:requests:Q
VolumeSource 1:hostPath:!HostPathVolumeSource 2:emptyDir:!EmptyDirVolumeSource 3:gcePersistentDisk:!GCEPersistentDiskVolumeSource 4:awsElasticBlockStore:!AWSElasticBlockStoreVolumeSource 5:gitRepo:!GitRepoVolumeSource 6:secret:!SecretVolumeSource 7:nfs:!NFSVolumeSource 8:iscsi:!ISCSIVolumeSource 9:glusterfs:!GlusterfsVolumeSource 10:persistentVolumeClaim:!PersistentVolumeClaimVolumeSource 11:rbd:!RBDVolumeSource 12:flexVolume:!FlexVolumeSource 13:cinder:!CinderVolumeSource 14:cephfs:!CephFSVolumeSource 15:flocker:!FlockerVolumeSource 16:downwardAPI:!DownwardAPIVolumeSource 17:fc:!FCVolumeSource 18:azureFile:!AzureFileVolumeSource 19:configMap:!ConfigMapVolumeSource 20:vsphereVolume:!VsphereVirtualDiskVolumeSource 21:quobyte:!QuobyteVolumeSource 22:azureDisk:!AzureDiskVolumeSource 23:photonPersistentDisk:!PhotonPersistentDiskVolumeSource 24:portworxVolume:!PortworxVolumeSource 25:scaleIO:!ScaleIOVolumeSource 26:projected:!ProjectedVolumeSource 27:storageos:!StorageOSVolumeSource 28:csi:!CSIVolumeSource 29:ephemeral:!EphemeralVolumeSource 30:image:!ImageVolumeSource
VolumeStatus 1:image:!ImageVolumeStatus
VsphereVirtualDiskVolumeSource 1:volumePath:!s 2:fsType:s 3:storagePolicyName:s 4:storagePolicyID:s
WebhookClientConfig 1:service:!ServiceReference 2:caBundle:y 3:url:!s
WeightedPodAffinityTerm 1:weight:!i 2:podAffinityTerm:!PodAffinityTerm
WindowsSecurityContextOptions 1:gmsaCredentialSpecName:!s 2:gmsaCredentialSpec:!s 3:runAsUserName:!s 4:hostProcess:!b
discovery.EndpointPort 1:name:!s 2:protocol:!s 3:port:!i 4:appProtocol:!s
events.Event 1:metadata:!ObjectMeta 2:eventTime:T 3:series:!events.EventSeries 4:reportingController:s 5:reportingInstance:s 6:action:s 7:reason:s 8:regarding:!ObjectReference 9:related:!ObjectReference 10:note:s 11:type:s 12:deprecatedSource:!EventSource 13:deprecatedFirstTimestamp:t 14:deprecatedLastTimestamp:t 15:deprecatedCount:i
events.EventSeries 1:count:!i 2:lastObservedTime:T
`
