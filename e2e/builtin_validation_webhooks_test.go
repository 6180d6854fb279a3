package e2e

// webhook is the smallest webhook. It is for a kind that these tests do not create.
const webhook = `{"name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/a"}, "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [{
	"operations": ["CREATE"], "apiGroups": ["a.example.com"], "apiVersions": ["v1"], "resources": ["nothing"]}]}`

var webhookValidations = []validated{
	{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"webhooks": [` + webhook + `]}`, webhookCases + `
		metadata.name="A"
		webhooks.1=` + webhook1 + `
	`, `
		webhooks.0.name="b"
		webhooks.0.sideEffects="Some"
		webhooks.0.timeoutSeconds=31
	`, ""},
	{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `{"webhooks": [` + webhook + `]}`, webhookCases + `
		webhooks.0.reinvocationPolicy=""
		webhooks.0.reinvocationPolicy="x"
	`, `
		webhooks.0.reinvocationPolicy="x"
	`, ""},
}

const webhook1 = `{"name": "a.example.com", "clientConfig": {"url": "https://127.0.0.1:1/a"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}`

const webhookCases = `
	webhooks.0.name=""
	webhooks.0.name="a"
	webhooks.0.name="a.b"
	webhooks.0.name="A.b.c"
	webhooks.0.name="a..b"
	webhooks.0.clientConfig={}
	webhooks.0.clientConfig={"url": ""}
	webhooks.0.clientConfig={"url": "://"}
	webhooks.0.clientConfig={"url": "http://a"}
	webhooks.0.clientConfig={"url": "https://a@b/?c=d#e"}
	webhooks.0.clientConfig={"url": "https://a", "service": {"name": "a", "namespace": "b"}}
	webhooks.0.clientConfig={"service": {"name": "", "namespace": ""}}
	webhooks.0.clientConfig={"service": {"name": "a", "namespace": "b", "path": "c d", "port": -1}}
	webhooks.0.clientConfig={"service": {"name": "a", "namespace": "b", "path": "//"}}
	webhooks.0.clientConfig={"service": {"name": "a", "namespace": "b", "port": 0}}
	webhooks.0.sideEffects=null
	webhooks.0.sideEffects=""
	webhooks.0.sideEffects="Some"
	webhooks.0.admissionReviewVersions=[]
	webhooks.0.admissionReviewVersions=["v2"]
	webhooks.0.admissionReviewVersions=["v1", "v1"]
	webhooks.0.admissionReviewVersions=["", "A_"]
	webhooks.0.failurePolicy=""
	webhooks.0.failurePolicy="x"
	webhooks.0.matchPolicy="x"
	webhooks.0.timeoutSeconds=0
	webhooks.0.timeoutSeconds=31
	webhooks.0.namespaceSelector={"matchLabels": {"a b": "c d"}}
	webhooks.0.namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}
	webhooks.0.objectSelector={"matchExpressions": [{"key": "", "operator": "x", "values": ["a b"]}]}
	webhooks.0.matchConditions=[{"name": "", "expression": ""}]
	webhooks.0.matchConditions=[{"name": "a b", "expression": " "}, {"name": "c", "expression": " "}, {"name": "c", "expression": " "}]
	webhooks.0.rules=[{}]
	webhooks.0.rules.0.operations=["*", "CREATE"]
	webhooks.0.rules.0.operations=["", "x"]
	webhooks.0.rules.0.apiGroups=["", "*"]
	webhooks.0.rules.0.apiVersions=["", "*"]
	webhooks.0.rules.0.scope=""
	webhooks.0.rules.0.scope="x"
	webhooks.0.rules.0.resources=[""]
	webhooks.0.rules.0.resources=["*", "a"]
	webhooks.0.rules.0.resources=["*", "a/b"]
	webhooks.0.rules.0.resources=["*/*", "a"]
	webhooks.0.rules.0.resources=["*/b", "a/b", "a/*", "a/c"]
	webhooks.0.rules.0.resources=["*/b", "*/b", "a/*", "a/*"]
	webhooks.0.rules.0.resources=["a/b/c", "/", "a/"]
	webhooks.0.name="" ; webhooks.0.rules=[{}] ; webhooks.0.failurePolicy="x" ; webhooks.0.sideEffects="x" ; webhooks.0.clientConfig={} ; webhooks.0.admissionReviewVersions=["x"]
`
