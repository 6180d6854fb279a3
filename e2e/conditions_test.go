package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kopf-go/kopf"
	"github.com/kopf-go/kopf/internal/proof"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// This file compares the conditions that kopf sets with those of the functions of apimachinery.

// TestConditions sets the same conditions with both, one after the other, on objects that are stored in between.
func TestConditions(t *testing.T) {
	t.Run("RC-59 conditions are set as SetStatusCondition sets them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			random, requests, rounds := rand.New(rand.NewPCG(59, 1)), 0, proof.Rounds(200, 2000)
			for range rounds {
				requests += compareConditions(t, random)
			}
			calls := 20 * rounds
			t.Logf("%d of %d calls make a request", requests, calls)
			if requests < calls/4 || requests > calls*3/4 {
				t.Error("the conditions are too much alike, or too different")
			}
		})
	})
}

// compareConditions sets 20 conditions of an object, and returns the number of requests for them.
func compareConditions(t *testing.T, random *rand.Rand) (requests int) { // in a bubble
	t.Helper()
	var want []metav1.Condition
	stored := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"X","metadata":{"name":"x"},"status":{"phase":"x","conditions":[{"type":"Theirs","status":"True","extra":%d}]}}`, random.IntN(9))
	theirs := metav1.Condition{Type: "Theirs", Status: "True"} // with an unknown field, and without others
	want = append(want, theirs)
	condition := randomCondition(random)
	for range 20 {
		time.Sleep(time.Duration(random.IntN(3)) * time.Second)
		if random.IntN(3) > 0 {
			condition = randomCondition(random)
		}
		changed := meta.SetStatusCondition(&want, metav1.Condition{
			Type: condition.Type, Status: metav1.ConditionStatus(condition.Status), Reason: condition.Reason, Message: condition.Message,
			ObservedGeneration: condition.ObservedGeneration, LastTransitionTime: metav1.NewTime(condition.LastTransitionTime),
		})
		body, err := kopf.ParseBody(stored)
		if err != nil {
			t.Fatal(err)
		}
		var patch kopf.Patch
		patch.SetCondition(condition)
		operations := patch.JSONPatch(body)
		if (len(operations) > 0) != changed {
			t.Fatalf("%s\n%+v\ngot the operations %v, want some: %t", stored, condition, operations, changed)
		}
		if changed {
			requests++
		}
		stored = patchedBy(t, stored, operations)
		wantConditions(t, stored, want)
	}
	return requests
}

// wantConditions compares the conditions of an object, and checks that the field of another client still exists.
func wantConditions(t *testing.T, object []byte, want []metav1.Condition) {
	t.Helper()
	var got struct {
		Status struct {
			Phase      string
			Conditions []metav1.Condition
		}
	}
	if err := json.Unmarshal(object, &got); err != nil {
		t.Fatal(err)
	}
	sameTime := cmp.Comparer(func(a, b metav1.Time) bool { return a.Unix() == b.Unix() || a.IsZero() && b.IsZero() }) // it is stored without fractions
	if diff := cmp.Diff(want, got.Status.Conditions, sameTime); diff != "" || got.Status.Phase != "x" || !strings.Contains(string(object), `"extra"`) {
		t.Fatalf("%s (-want +got)\n%s", object, diff)
	}
}

func patchedBy(t *testing.T, object []byte, operations []kopf.PatchOperation) []byte {
	t.Helper()
	raw, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil || len(patch) == 0 {
		return object
	}
	patched, err := patch.Apply(object)
	if err != nil {
		t.Fatalf("%s: %s: %v", object, raw, err)
	}
	return patched
}

// randomCondition returns one of a few conditions, so that many of them equal the previous one of their type.
func randomCondition(random *rand.Rand) kopf.Condition {
	condition := kopf.Condition{
		Type:   []string{"Ready", "example.com/Sized"}[random.IntN(2)],
		Status: []kopf.ConditionStatus{kopf.ConditionTrue, kopf.ConditionTrue, kopf.ConditionTrue, kopf.ConditionTrue, kopf.ConditionFalse, kopf.ConditionUnknown}[random.IntN(6)],
		Reason: []string{"Made", "Made", "Made", "Made", "Made", "Waiting"}[random.IntN(6)],
	}
	if random.IntN(8) == 0 {
		condition.Message = `waits for the "volume"`
	}
	if random.IntN(8) == 0 {
		condition.ObservedGeneration = random.Int64N(3)
	}
	if random.IntN(5) == 0 {
		condition.LastTransitionTime = time.Date(2020, 1, 1+random.IntN(9), 0, 0, 0, random.IntN(1e9), time.FixedZone("", 3600))
	}
	return condition
}

// conditionSchema has the rules of metav1.Condition from its markers, as CRDs contain them.
const conditionSchema = `{"type":"object","required":["lastTransitionTime","message","reason","status","type"],"properties":{
	"type":{"type":"string","maxLength":316,"pattern":"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"},
	"status":{"type":"string","enum":["True","False","Unknown"]},
	"observedGeneration":{"type":"integer","format":"int64","minimum":0},
	"lastTransitionTime":{"type":"string","format":"date-time"},
	"reason":{"type":"string","minLength":1,"maxLength":1024,"pattern":"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
	"message":{"type":"string","maxLength":32768}}}`

// TestConditionRules checks that kopf sends a condition if and only if an API server accepts it by the schema of metav1.Condition.
func TestConditionRules(t *testing.T) {
	t.Run("RC-59 what metav1.Condition does not allow is not sent", func(t *testing.T) {
		var schema spec.Schema
		if err := json.Unmarshal([]byte(conditionSchema), &schema); err != nil {
			t.Fatal(err)
		}
		body, err := kopf.ParseBody([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x","generation":3}}`))
		if err != nil {
			t.Fatal(err)
		}
		random, valid := rand.New(rand.NewPCG(59, 2)), 0
		const conditions = 20_000
		for range conditions {
			condition := nearlyValid(random)
			message := condition.Message
			if runes := []rune(message); len(runes) > 32768 { // which kopf shortens
				message = string(runes[:32768])
			}
			raw, err := json.Marshal(metav1.Condition{
				Type: condition.Type, Status: metav1.ConditionStatus(condition.Status), Reason: condition.Reason, Message: message,
				ObservedGeneration: condition.ObservedGeneration, LastTransitionTime: metav1.Now(),
			})
			if err != nil {
				t.Fatal(err)
			}
			var decoded any
			if err := utiljson.Unmarshal(raw, &decoded); err != nil { // which keeps integers
				t.Fatal(err)
			}
			refusal := validate.AgainstSchema(&schema, decoded, strfmt.Default)
			var patch kopf.Patch
			patch.SetCondition(condition)
			if sent := len(patch.JSONPatch(body)) > 0; sent != (refusal == nil) {
				t.Fatalf("%.500s is sent: %t, the schema says %v", raw, sent, refusal)
			}
			if refusal == nil {
				valid++
			}
		}
		t.Logf("%d of %d conditions are valid", valid, conditions)
		if valid < conditions/10 || valid > conditions*9/10 {
			t.Error("the conditions are too much alike")
		}
	})
}

// nearlyValid returns a condition whose texts consist of characters that the rules distinguish, with lengths around the limits.
func nearlyValid(random *rand.Rand) kopf.Condition {
	condition := kopf.Condition{Type: "Ready", Status: kopf.ConditionTrue, Reason: "Made"}
	text := func(letters string, limit int) string {
		characters := []rune(letters)
		if random.IntN(4) == 0 {
			return strings.Repeat(string(characters[random.IntN(len(characters))]), limit+random.IntN(3)-1)
		}
		made := make([]rune, random.IntN(8))
		for i := range made {
			made[i] = characters[random.IntN(len(characters))]
		}
		return string(made)
	}
	switch random.IntN(5) {
	case 0:
		condition.Type = text("aaaazB0-_./é ", 316)
		if random.IntN(4) == 0 {
			condition.Type = text("aaz0-.", 314) + "/B"
		}
	case 1:
		condition.Status = kopf.ConditionStatus([]string{"True", "False", "Unknown", "true", "", "True ", "Yes"}[random.IntN(7)])
	case 2:
		condition.Reason = text("aaaBz0_,:-é\n", 1024)
	case 3:
		condition.Message = text("a é😀\n\x00", 32768)
	case 4:
		condition.ObservedGeneration = []int64{-1 << 63, -1, 0, 1, 1<<63 - 1}[random.IntN(5)]
	}
	return condition
}
