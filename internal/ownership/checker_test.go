package ownership

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/kopf-go/kopf/internal/rawjson"
)

const (
	annotation = "example.com/applied"
	noted      = `"f:metadata":{"f:annotations":{"f:example.com/applied":{}}}` // fields that all entries have
)

// configure returns the configuration of a custom resource with additional stanzas.
func configure(tb testing.TB, stanzas string) *Configuration {
	tb.Helper()
	return parse(tb, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},`+stanzas+`}`)
}

func parse(tb testing.TB, object string) *Configuration {
	tb.Helper()
	m, err := rawjson.DecodeObject([]byte(object))
	if err != nil {
		tb.Fatal(err)
	}
	c, err := New(m, annotation)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func check(k *Checker, c *Configuration, fields string) Result {
	return k.Check(c, c.Digest(), []byte(fields), "example.com/v1")
}

// TestCheck has fieldsV1 from kube-apiserver 1.36: from the response to the apply, and after writes of other clients.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stanzas string
		applied string            // fields in the response to the apply
		now     map[string]Result // later fields
	}{
		{"RC-50 maps", `"spec":{"a":"s","b":{"c":1}}`, `{` + noted + `,"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}`, map[string]Result{
			`{` + noted + `,"f:spec":{"f:a":{}}}`:                                   Drifted,
			`{` + noted + `,"f:spec":{"f:b":{"f:c":{}}}}`:                           Drifted,
			`{` + noted + `}`:                                                       Drifted,
			`{"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}`:                                Drifted,
			`{` + noted + `,"f:spec":{"f:a":{},"f:b":{"f:c":{},"f:d":{}}}}`:         Drifted,
			`{` + noted + `,"f:extra":{},"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}`:     Drifted,
			`{` + noted + `,"f:spec":{"f:a":{"f:x":{}},"f:b":{"f:c":{}}}}`:          Drifted,
			`{` + noted + `,"x:y":{"f:z":{}},"f:spec":{"f:a":{},"f:b":{"f:c":{}}}}`: Owned, // of a later version
		}},
		{"RC-50 odd keys", `"spec":{"t~u":1,"x.y/z":2,"q\"r\\s":3,"ü":4,".":5,"f:k":6,"k:{}":7}`,
			`{` + noted + `,"f:spec":{"f:.":{},"f:f:k":{},"f:k:{}":{},"f:q\"r\\s":{},"f:t~u":{},"f:x.y/z":{},"f:ü":{}}}`, map[string]Result{
				`{` + noted + `,"f:spec":{"f:.":{},"f:f:k":{},"f:k:{}":{},"f:q\"r\\s":{},"f:t~u":{},"f:x.y\/z":{},"f:\u00fc":{}}}`: Owned,
				`{` + noted + `,"f:spec":{"f:f:k":{},"f:k:{}":{},"f:q\"r\\s":{},"f:t~u":{},"f:x.y/z":{},"f:ü":{}}}`:                Drifted,
			}},
		{"RC-50 items with keys", `"spec":{"list":[{"name":"q","v":1},{"name":"p","w":[{"name":1,"on":true}]}]}`,
			`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":\"p\"}":{".":{},"f:name":{},"f:w":{"k:{\"name\":1,\"on\":true}":{".":{},"f:name":{},"f:on":{}}}},"k:{\"name\":\"q\"}":{".":{},"f:name":{},"f:v":{}}}}}`, map[string]Result{
				`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":\"p\"}":{".":{},"f:name":{},"f:w":{"k:{\"name\":1,\"on\":true}":{".":{},"f:name":{},"f:on":{}}}},"k:{\"name\":\"q\"}":{".":{},"f:name":{}}}}}`:           Drifted,
				`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":\"q\"}":{".":{},"f:name":{},"f:v":{}}}}}`:                                                                                                                Drifted,
				`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":\"p\"}":{".":{},"f:name":{}},"k:{\"name\":\"q\"}":{".":{},"f:name":{},"f:v":{}}}}}`:                                                                      Drifted,
				`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":\"p\"}":{".":{},"f:name":{},"f:w":{"k:{\"name\":1,\"on\":false}":{".":{},"f:name":{},"f:on":{}}}},"k:{\"name\":\"q\"}":{".":{},"f:name":{},"f:v":{}}}}}`: Drifted,
			}},
		{"RC-50 keys with defaults", `"spec":{"ports":[{"port":80},{"port":443,"name":"s"},{"port":80,"proto":"UDP"}]}`,
			`{` + noted + `,"f:spec":{"f:ports":{"k:{\"port\":80,\"proto\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":80,\"proto\":\"UDP\"}":{".":{},"f:port":{},"f:proto":{}},"k:{\"port\":443,\"proto\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`, map[string]Result{
				`{` + noted + `,"f:spec":{"f:ports":{"k:{\"port\":80,\"proto\":\"TCP\"}":{".":{},"f:port":{},"f:proto":{}},"k:{\"port\":80,\"proto\":\"UDP\"}":{".":{},"f:port":{},"f:proto":{}},"k:{\"port\":443,\"proto\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`: Owned,
				`{` + noted + `,"f:spec":{"f:ports":{"k:{\"port\":81,\"proto\":\"TCP\"}":{".":{},"f:port":{}},"k:{\"port\":80,\"proto\":\"UDP\"}":{".":{},"f:port":{},"f:proto":{}},"k:{\"port\":443,\"proto\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`:              Drifted,
			}},
		{"RC-50 keys that are left out", `"spec":{"list":[{"a":1,"v":1},{"a":1,"b":2}]}`,
			`{` + noted + `,"f:spec":{"f:list":{"k:{\"a\":1,\"b\":2}":{".":{},"f:a":{},"f:b":{}},"k:{\"a\":1}":{".":{},"f:a":{},"f:v":{}}}}}`, nil},
		{"RC-50 sets", `"spec":{"s":["b","a","<&>"],"n":[1.0,1e21,-0.1,9007199254740993],"b":[true,false]}`,
			`{` + noted + `,"f:spec":{"f:b":{"v:false":{},"v:true":{}},"f:n":{"v:-0.1":{},"v:1":{},"v:9007199254740993":{},"v:1e+21":{}},"f:s":{"v:\"\\u003c\\u0026\\u003e\"":{},"v:\"a\"":{},"v:\"b\"":{}}}}`, map[string]Result{
				// Entries that were decoded and encoded again have float64 numbers.
				`{` + noted + `,"f:spec":{"f:b":{"v:false":{},"v:true":{}},"f:n":{"v:-0.1":{},"v:1":{},"v:9007199254740992":{},"v:1e+21":{}},"f:s":{"v:\"\\u003c\\u0026\\u003e\"":{},"v:\"a\"":{},"v:\"b\"":{}}}}`: Owned,
				`{` + noted + `,"f:spec":{"f:b":{"v:false":{},"v:true":{}},"f:n":{"v:-0.1":{},"v:2":{},"v:9007199254740993":{},"v:1e+21":{}},"f:s":{"v:\"\\u003c\\u0026\\u003e\"":{},"v:\"a\"":{},"v:\"b\"":{}}}}`: Drifted,
				`{` + noted + `,"f:spec":{"f:b":{"v:true":{}},"f:n":{"v:-0.1":{},"v:1":{},"v:9007199254740993":{},"v:1e+21":{}},"f:s":{"v:\"\\u003c\\u0026\\u003e\"":{},"v:\"a\"":{},"v:\"b\"":{}}}}`:              Drifted,
				`{` + noted + `,"f:spec":{"f:b":{},"f:n":{"v:-0.1":{},"v:1":{},"v:9007199254740993":{},"v:1e+21":{}},"f:s":{"v:\"\\u003c\\u0026\\u003e\"":{},"v:\"a\"":{},"v:\"b\"":{}}}}`:                         Unknown,
			}},
		{"RC-50 empty maps and nulls", `"spec":{"m":{},"n":null,"l":null}`, `{` + noted + `,"f:spec":{"f:l":{},"f:m":{},"f:n":{}}}`, map[string]Result{
			`{` + noted + `,"f:spec":{"f:l":{},"f:n":{}}}`:                  Drifted,
			`{` + noted + `,"f:spec":{"f:l":{},"f:m":{}}}`:                  Drifted,
			`{` + noted + `,"f:spec":{"f:l":{},"f:m":{"f:x":{}},"f:n":{}}}`: Drifted,
		}},
		{"RC-50 empty lists with keys are not named", `"spec":{"list":[],"m":{"list":[]},"a":1},"status":{"x":1}`, `{` + noted + `,"f:spec":{"f:a":{}}}`, map[string]Result{
			`{` + noted + `}`: Drifted,
		}},
		{"RC-50 empty lists without a schema are", `"spec":{"free":{"x":{"list":[]}},"m":{"list":[]}}`, `{` + noted + `,"f:spec":{"f:free":{"f:x":{".":{},"f:list":{}}},"f:m":{}}}`, map[string]Result{
			`{` + noted + `,"f:spec":{"f:free":{"f:x":{}},"f:m":{}}}`:                   Drifted,
			`{` + noted + `,"f:spec":{"f:free":{"f:x":{".":{},"f:list":{}}}}}`:          Drifted,
			`{` + noted + `,"f:spec":{"f:free":{"f:x":{".":{},"f:list":{}}},"f:m":{}}}`: Owned,
		}},
		{"RC-50 an atomic map of empty lists in an item", `"spec":{"list":[{"name":1,"a":{"x":[],"y":{"z":[]}}}]}`,
			`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":1}":{".":{},"f:a":{},"f:name":{}}}}}`, map[string]Result{
				`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":1}":{".":{},"f:name":{}}}}}`: Drifted,
			}},
		{"RC-50 empty atomic lists are", `"spec":{"list":[],"a":1}`, `{` + noted + `,"f:spec":{"f:a":{},"f:list":{}}}`, map[string]Result{
			`{` + noted + `,"f:spec":{"f:a":{}}}`: Drifted,
		}},
		{"RC-51 atomic maps and lists", `"spec":{"m":{"a":1},"l":["x","y"],"i":[{"name":1,"v":2}]}`, `{` + noted + `,"f:spec":{"f:i":{"k:{\"name\":1}":{}},"f:l":{},"f:m":{}}}`, map[string]Result{
			`{` + noted + `,"f:spec":{"f:i":{"k:{\"name\":1}":{}},"f:m":{}}}`: Drifted,
		}},
		{"RC-51 maps and lists with free keys, of which others have all", `"spec":{"free":{"x":{"y":1}},"lists":{"k":[{"name":1}]}}`,
			`{` + noted + `,"f:spec":{"f:free":{"f:x":{".":{},"f:y":{}}},"f:lists":{"f:k":{".":{},"k:{\"name\":1}":{".":{},"f:name":{}}}}}}`, map[string]Result{
				`{` + noted + `,"f:spec":{"f:free":{"f:x":{}},"f:lists":{"f:k":{".":{},"k:{\"name\":1}":{".":{},"f:name":{}}}}}}`: Drifted,
				`{` + noted + `,"f:spec":{"f:free":{"f:x":{".":{},"f:y":{}}},"f:lists":{"f:k":{}}}}`:                              Drifted,
			}},
		{"RC-51 a map and a list at one place without a schema", `"spec":{"list":[{"name":1,"z":[1]},{"name":2,"z":{"a":1}}]}`,
			`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":1}":{".":{},"f:name":{},"f:z":{}},"k:{\"name\":2}":{".":{},"f:name":{},"f:z":{".":{},"f:a":{}}}}}}`, map[string]Result{
				`{` + noted + `,"f:spec":{"f:list":{"k:{\"name\":1}":{".":{},"f:name":{},"f:z":{}},"k:{\"name\":2}":{".":{},"f:name":{},"f:z":{}}}}}`: Drifted,
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configure(t, tt.stanzas)
			k := &Checker{}
			if learnt, got := k.Learn(c, []byte(tt.applied), c.apiVersion), check(k, c, tt.applied); learnt != got || got != Owned {
				t.Errorf("after the apply: %v, and %v in its answer, want %v", got, learnt, Owned)
			}
			for fields, want := range tt.now {
				if got := check(k, c, fields); got != want {
					t.Errorf("%s: %v, want %v", fields, got, want)
				}
			}
			if got := check(&Checker{}, c, tt.applied); got == Drifted && !strings.Contains(tt.stanzas, `"status"`) {
				t.Errorf("after a restart: %v", got)
			}
		})
	}
}

func TestCheckWhole(t *testing.T) {
	c := configure(t, `"spec":{"a":1}`)
	fields := []byte(`{` + noted + `,"f:spec":{"f:a":{}}}`)
	k := &Checker{}
	t.Run("RC-50 another configuration was applied", func(t *testing.T) {
		if got := k.Check(c, configure(t, `"spec":{"a":2}`).Digest(), fields, "example.com/v1"); got != Drifted {
			t.Error(got)
		}
	})
	t.Run("RC-50 the annotation is gone", func(t *testing.T) {
		if got := k.Check(c, "", fields, "example.com/v1"); got != Drifted {
			t.Error(got)
		}
	})
	t.Run("RC-50 another version was applied", func(t *testing.T) {
		if got := k.Check(c, c.Digest(), fields, "example.com/v1beta1"); got != Drifted {
			t.Error(got)
		}
	})
	t.Run("RC-53 the entry is lost", func(t *testing.T) {
		if got := k.Check(c, c.Digest(), nil, ""); got != Drifted {
			t.Error(got)
		}
	})
	t.Run("RC-52 owner references need no apply that teaches", func(t *testing.T) {
		c := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"b","uid":"u","controller":true}]},"data":{"a":"1"}}`)
		fields := `{"f:data":{"f:a":{}},"f:metadata":{"f:annotations":{"f:example.com/applied":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`
		if got := k.Check(c, c.Digest(), []byte(fields), "v1"); got != Owned {
			t.Error(got)
		}
	})
}

func TestLearning(t *testing.T) {
	applied := `{` + noted + `,"f:spec":{"f:m":{}}}`
	one, other := configure(t, `"spec":{"m":{"a":1}}`), configure(t, `"spec":{"m":{"b":2}}`)
	t.Run("RC-51 what an apply has shown holds for all objects of the kind", func(t *testing.T) {
		k := &Checker{}
		if got := check(k, one, applied); got != Unknown {
			t.Errorf("%v before anything is known", got)
		}
		k.Learn(one, []byte(applied), one.apiVersion)
		if got := check(k, other, applied); got != Owned {
			t.Error(got)
		}
		elsewhere := parse(t, `{"apiVersion":"example.com/v1","kind":"Another","metadata":{"name":"a"},"spec":{"m":{"a":1}}}`)
		if got := check(k, elsewhere, applied); got != Unknown {
			t.Errorf("%v for another kind", got)
		}
	})
	t.Run("RC-51 a definition that has changed", func(t *testing.T) {
		k := &Checker{}
		k.Learn(one, []byte(applied), one.apiVersion)
		k.Accept(one, []byte(`{}`))
		k.Forget("example.com/v1", "Thing")
		k.Forget("example.com/v1", "Thing")
		if got := check(k, one, applied); got != Unknown || k.facts != 0 {
			t.Errorf("%v, and %d facts are left", got, k.facts)
		}
	})
	t.Run("RC-51 an answer that does not fit teaches nothing", func(t *testing.T) {
		k := &Checker{}
		k.Learn(one, []byte(`{`+noted+`,"f:extra":{},"f:spec":{"f:m":{}}}`), one.apiVersion)
		k.Learn(one, []byte(`{`+noted+`,"f:spec":{"f:m":{}`), one.apiVersion)
		if got := check(k, one, applied); got != Unknown {
			t.Error(got)
		}
	})
	t.Run("RC-51 a pair that is accepted is no reason any more", func(t *testing.T) {
		k := &Checker{}
		for _, fields := range []string{applied, `{` + noted + `,"f:strange":{}}`} {
			k.Accept(one, []byte(fields))
			k.Accept(one, []byte(fields))
			if got := check(k, one, fields); got != Owned {
				t.Errorf("%v of %s", got, fields)
			}
			if got := check(k, other, fields); got == Owned {
				t.Errorf("%v of %s with another configuration", got, fields)
			}
		}
		if k.facts != 2 {
			t.Errorf("%d facts, want 2", k.facts)
		}
	})
	t.Run("RC-51 items that could be several elements", func(t *testing.T) {
		c := configure(t, `"spec":{"list":[{"x":1},{"y":1}]}`)
		fields := `{` + noted + `,"f:spec":{"f:list":{"k:{\"x\":1,\"y\":1}":{".":{},"f:x":{}},"k:{\"x\":1,\"y\":1,\"z\":1}":{".":{},"f:y":{}}}}}`
		if got := check(&Checker{}, c, fields); got != Unknown {
			t.Error(got)
		}
	})
	t.Run("RC-51 indices", func(t *testing.T) {
		c := configure(t, `"spec":{"list":[1]}`)
		if got := check(&Checker{}, c, `{`+noted+`,"f:spec":{"f:list":{"i:0":{}}}}`); got != Unknown {
			t.Error(got)
		}
	})
	t.Run("RC-51 the memory is bounded", func(t *testing.T) {
		k := &Checker{}
		for i := range maxFacts + 10 {
			k.Accept(one, fmt.Append(nil, i))
		}
		if k.facts != 10 || len(k.kinds) != 1 {
			t.Errorf("%d facts of %d kinds", k.facts, len(k.kinds))
		}
	})
}

func TestLongLists(t *testing.T) {
	var items, elements, set, members []string
	for i := range 200 {
		items = append(items, fmt.Sprintf(`{"name":"n%d","port":%d.0}`, 199-i, i))
		elements = append(elements, fmt.Sprintf(`"k:{\"name\":\"n%d\",\"port\":%d}":{".":{},"f:name":{},"f:port":{}}`, i, 199-i))
		set = append(set, fmt.Sprintf(`"s%d"`, 199-i))
		members = append(members, fmt.Sprintf(`"v:\"s%d\"":{}`, i))
	}
	c := configure(t, fmt.Sprintf(`"spec":{"list":[%s],"set":[%s]}`, strings.Join(items, ","), strings.Join(set, ",")))
	fields := fmt.Sprintf(`{%s,"f:spec":{"f:list":{%s},"f:set":{%s}}}`, noted, strings.Join(elements, ","), strings.Join(members, ","))
	k := &Checker{}
	if got := check(k, c, fields); got != Owned {
		t.Errorf("%v, want %v", got, Owned)
	}
	for _, change := range []string{`\"s7\"`, `\"n7\"`, `\"port\":7}`} {
		if got := check(k, c, strings.Replace(fields, change, strings.Replace(change, "7", "777", 1), 1)); got != Drifted {
			t.Errorf("%v without %s, want %v", got, change, Drifted)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := configure(t, `"spec":{"m":{"a":1}}`)
	fields := []byte(`{` + noted + `,"f:spec":{"f:m":{}}}`)
	k := &Checker{}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				k.Learn(c, fields, c.apiVersion)
				k.Accept(c, fields)
				k.Check(c, c.Digest(), fields, "example.com/v1")
				k.Forget("example.com/v1", "Thing")
			}
		})
	}
	group.Wait()
}

// FuzzCheck checks arbitrary input: it must not panic, and learned fields must count as owned.
func FuzzCheck(f *testing.F) {
	f.Add(`{"a":[{"name":"x"},{"name":"y","b":[1,"2",true,null]}],"c":{"d":{},"e":[]}}`, `{"f:a":{"k:{\"name\":\"x\"}":{".":{},"f:name":{}},"k:{\"name\":\"y\"}":{".":{},"f:b":{"v:1":{},"v:\"2\"":{}}}},"f:c":{"f:d":{},"i:0":{}}}`)
	f.Add(`{"a":1}`, `{"f:a":{},"k:":{},"v:":{},"v:\"":{},":":{},"":{},"k:{":{},"f:a":{"f:a"`)
	f.Add(`{"l":[{"a":1},{"b":2}]}`, `{"f:l":{"k:{\"a\":1,\"b\":2}":{},"k:{\"a\":9,\"b\":2}":{},"k:{}":{}}}`)
	f.Fuzz(func(t *testing.T, spec, fields string) {
		var value any
		if json.Unmarshal([]byte(spec), &value) != nil {
			return
		}
		c, err := New(map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": value}, annotation)
		if err != nil {
			t.Fatal(err)
		}
		all := []byte(`{` + noted + `,"f:spec":` + fields + `}`)
		k := &Checker{}
		object := []byte(`{"spec":` + spec + `}`)
		k.NoteLost(c, all, object)
		if k.Lost(c, all, object) {
			t.Error("what is noted as lost is lost again")
		}
		before := check(k, c, string(all))
		learnt := k.Learn(c, all, c.apiVersion)
		after := check(k, c, string(all))
		if before == Owned && after != Owned {
			t.Errorf("%v before learning, and %v after it", before, after)
		}
		if again := k.Learn(c, all, c.apiVersion); learnt != after || again != after {
			t.Errorf("%v is learnt, and %v again, what is %v", learnt, again, after)
		}
		k.Accept(c, all)
		if got := check(k, c, string(all)); got != Owned {
			t.Errorf("%v after it was accepted", got)
		}
		if again := parse(t, string(c.JSON(nil))); again.Digest() != c.Digest() {
			t.Errorf("the digest is %s, and %s of what is sent", c.Digest(), again.Digest())
		}
	})
}

// deployment returns a typical child with the fields in the response of kube-apiserver.
func deployment(tb testing.TB) (*Configuration, []byte) {
	return parse(tb, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"child","labels":{"l":"1"},"ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"ConfigMap","name":"owner","uid":"fdea2ed9-dd14-489a-83b5-48d09c3cae95"}]},
		"spec":{"replicas":2,"selector":{"matchLabels":{"x":"child"}},"strategy":{},"template":{"metadata":{"creationTimestamp":null,"labels":{"x":"child"}},"spec":{"containers":[{"args":["x","y"],"env":[{"name":"B","value":"1"},{"name":"A","value":"2"}],"image":"nginx","name":"w",
		"ports":[{"containerPort":80},{"containerPort":53,"protocol":"UDP"},{"containerPort":53}],"resources":{"limits":{"cpu":"1000m","memory":"1024Mi"},"requests":{"cpu":"0.5"}}},{"image":"sidecar","name":"s","resources":{}}],"nodeSelector":{"a":"b"},"securityContext":{},
		"tolerations":[{"key":"a","operator":"Exists"}],"volumes":[{"emptyDir":{},"name":"v"}]}}},"status":{}}`),
		[]byte(`{"f:metadata":{"f:annotations":{"f:example.com/applied":{}},"f:labels":{"f:l":{}},"f:ownerReferences":{"k:{\"uid\":\"fdea2ed9-dd14-489a-83b5-48d09c3cae95\"}":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{},"f:template":{"f:metadata":{"f:creationTimestamp":{},"f:labels":{"f:x":{}}},` +
			`"f:spec":{"f:containers":{"k:{\"name\":\"s\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}},"k:{\"name\":\"w\"}":{".":{},"f:args":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"B\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},` +
			`"f:ports":{"k:{\"containerPort\":53,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"k:{\"containerPort\":53,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},` +
			`"f:resources":{"f:limits":{"f:cpu":{},"f:memory":{}},"f:requests":{"f:cpu":{}}}}},"f:nodeSelector":{},"f:securityContext":{},"f:tolerations":{},"f:volumes":{"k:{\"name\":\"v\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}}}`)
}

func TestDeployment(t *testing.T) {
	c, fields := deployment(t)
	k := &Checker{}
	if got := k.Check(c, c.Digest(), fields, "apps/v1"); got != Unknown {
		t.Errorf("%v at first, want %v", got, Unknown)
	}
	k.Learn(c, fields, c.apiVersion)
	if got := k.Check(c, c.Digest(), fields, "apps/v1"); got != Owned {
		t.Errorf("%v, want %v", got, Owned)
	}
	t.Run("RC-50 any field that is lost is noticed", func(t *testing.T) {
		m := rawjson.Map(fields)
		for _, path := range fieldPaths(m, nil) {
			less := rawjson.Clone(m).(map[string]any)
			removeField(less, path)
			data, err := rawjson.Encode(less)
			if err != nil {
				t.Fatal(err)
			}
			if got := k.Check(c, c.Digest(), data, "apps/v1"); got != Drifted {
				t.Errorf("%v without %q, want %v", got, path, Drifted)
			}
		}
	})
}

// removeField removes a field, and parents that were named only because of it.
func removeField(fields map[string]any, path []string) {
	below := fields[path[0]].(map[string]any)
	if len(path) > 1 {
		removeField(below, path[1:])
	}
	if len(path) == 1 || len(below) == 0 {
		delete(fields, path[0])
	}
}

// fieldPaths returns the paths of all fields.
func fieldPaths(fields map[string]any, at []string) (all [][]string) {
	for _, key := range rawjson.SortedKeys(fields) {
		if key != "." {
			path := append(at[:len(at):len(at)], key)
			all = append(append(all, path), fieldPaths(fields[key].(map[string]any), path)...)
		}
	}
	return all
}

func BenchmarkCheck(b *testing.B) {
	c, fields := deployment(b)
	k := &Checker{}
	k.Learn(c, fields, c.apiVersion)
	b.ReportAllocs()
	for b.Loop() {
		if k.Check(c, c.digest, fields, "apps/v1") != Owned {
			b.Fatal("it is not owned")
		}
	}
}

func BenchmarkNew(b *testing.B) {
	c, _ := deployment(b)
	object := rawjson.Map(c.JSON(nil))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(object, annotation); err != nil {
			b.Fatal(err)
		}
	}
}
