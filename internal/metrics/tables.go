package metrics

// This file defines the metric families, as tables for [page.table]. Some use the names of controller-runtime, client-go and the Prometheus client, so that
// existing dashboards work: a reconcile handler is a controller, and the objects of a resource are the items of a queue.

// handlerFamilies have a row for each handler.
const handlerFamilies = `kopf_handler_attempts_total c Attempts of handlers by how they have ended.
{handler="$",outcome="success"}
{handler="$",outcome="retry"}
{handler="$",outcome="failure"}
{handler="$",outcome="ignored"}
{handler="$",outcome="waiting"}
{handler="$",outcome="cancelled"}
kopf_handler_duration_seconds h How long the attempts of handlers have taken.
1{handler="$"}
kopf_handler_last_success_timestamp_seconds g When an attempt has succeeded last.
{handler="$"}
kopf_handler_running_seconds_max g For how long the longest attempt goes on that is under way.
{handler="$"}
`

// failingFamilies have a row for each handler and resource.
const failingFamilies = `kopf_objects_failing g Objects for which a handler is to be called again after an error.
{resource="$",handler="&"}
`

// resourceFamilies have a row for each resource.
const resourceFamilies = `kopf_objects g Objects that are known.
{resource="$"}
kopf_objects_failed g Objects for which a handler has failed permanently, until they change.
{resource="$"}
kopf_watch_events_total c Events received from the API server; those of the type LISTED are the objects of listings.
{resource="$",type="LISTED"}
{resource="$",type="ADDED"}
{resource="$",type="MODIFIED"}
{resource="$",type="DELETED"}
kopf_watch_restarts_total c Connections of streams after their first ones.
{resource="$"}
kopf_watch_streams g Streams that are to be open, and those that are, or were so far without trouble.
{resource="$",state="wanted"}
{resource="$",state="working"}
workqueue_adds_total c Times that an object came into the queue.
{name="$",controller="$"}
workqueue_retries_total c Times that an object was to be looked at again later.
{name="$",controller="$"}
kopf_watch_last_event_timestamp_seconds g When the quietest stream that works has received an event or a bookmark last; nothing if bookmarks do not come.
{resource="$"}
workqueue_depth g Objects that wait for a worker.
{name="$",controller="$"}
workqueue_unfinished_work_seconds g For how long objects are being worked on, all together.
{name="$",controller="$"}
workqueue_longest_running_processor_seconds g For how long the object is being worked on that is for the longest time.
{name="$",controller="$"}
workqueue_queue_duration_seconds h How long objects have waited for a worker.
2{name="$",controller="$"}
workqueue_work_duration_seconds h How long workers have worked on objects.
2{name="$",controller="$"}
`

// childFamilies have a row for each resource of child objects.
const childFamilies = `kopf_children g Children of reconcile handlers by what they are like.
{resource="$",state="ready"}
{resource="$",state="not_ready"}
{resource="$",state="terminating"}
kopf_children_writes_total c Requests that write children.
{resource="$",verb="apply",outcome="success"}
{resource="$",verb="apply",outcome="conflict"}
{resource="$",verb="apply",outcome="refused"}
{resource="$",verb="apply",outcome="error"}
{resource="$",verb="delete",outcome="success"}
{resource="$",verb="delete",outcome="conflict"}
{resource="$",verb="delete",outcome="refused"}
{resource="$",verb="delete",outcome="error"}
`

// requestFamilies have a row for each verb and code, methodFamilies for each method and code, verbFamilies for each verb.
const (
	requestFamilies = `kopf_api_requests_total c Requests to the API server by verb and code of the answer; 0 means that there was none.
{verb="$",code="&"}
`
	methodFamilies = `rest_client_requests_total c Requests to the API server.
{code="&",method="$",host="@"}
`
	verbFamilies = `kopf_api_request_duration_seconds h How long requests to the API server have taken, watches apart.
1{verb="$"}
`
)

// operatorFamilies have one row for the operator and its process. The first families are [Count], in its order.
const operatorFamilies = `kopf_queue_depth g Objects that are being worked on, or wait for that.
=
kopf_background_tasks g Daemons and timers of all objects that have not ended.
{kind="daemon"}
{kind="timer"}
kopf_kubernetes_events_total c Kubernetes events about objects by what has become of them.
{outcome="posted"}
{outcome="merged"}
{outcome="lost"}
kopf_flapping_total c Times that the handling of an object began to be slowed down, because its fields were changed again and again.
=
kopf_logins_total c Logins that have succeeded.
=
kopf_peers g Other operators that are alive in the peering objects.
=
kopf_election_terms_total c Terms in which this replica was the leader.
=
kopf_api_throttled_seconds_total c How long requests have waited for the limits of the client.
=
kopf_election_reached g Whether this replica has ever found out who holds the Lease.
=
leader_election_master_status g Whether this replica is the leader, by the name of the Lease.
{name="$"}
kopf_handler_retries_total c Attempts of handlers that had an error, and are followed by another attempt.
=
kopf_queue_oldest_seconds g For how long the object waits to be worked on that does for the longest time.
=
kopf_paused g Whether the operator pauses in favour of others.
=
kopf_standby g Whether this replica stands by, because another one works or none does.
=
kopf_build_info g The version of the framework, and that of Go.
{version="@",goversion="&"}
kopf_goroutines g Goroutines of the process.
=
kopf_resident_memory_bytes g Memory of the process; 0 if the system does not tell.
=
process_start_time_seconds g When the process was started.
=
process_resident_memory_bytes g Memory of the process.
=
process_cpu_seconds_total c Processor time that the process has used.
=
kopf_certificate_expiry_timestamp_seconds g When a certificate ends that the operator uses.
{certificate="client"}
{certificate="webhooks"}
`

// controllerFamilies have a row for each reconcile handler.
const controllerFamilies = `controller_runtime_reconcile_total c Calls of reconcile handlers.
{controller="$",result="success"}
{controller="$",result="requeue_after"}
{controller="$",result="error"}
{controller="$",result="requeue"}
controller_runtime_reconcile_errors_total c Calls that have failed.
{controller="$"}
controller_runtime_terminal_reconcile_errors_total c Calls that have failed permanently.
{controller="$"}
controller_runtime_reconcile_panics_total c Calls that have panicked.
{controller="$"}
controller_runtime_active_workers g Calls under way.
{controller="$"}
controller_runtime_max_concurrent_reconciles g Objects that are worked on at the same time; 0 means as many as there are.
{controller="$"}
controller_runtime_reconcile_time_seconds h How long calls have taken.
2{controller="$"}
`
