package livepage

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// script runs the script of the page in a small document, and then the steps of a test in an
// asynchronous function. It returns the results that these pass to the function report. The test in
// e2e/browser has a real browser.
func script(t *testing.T, steps string) (results map[string]any) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node to run the script of the page")
	}
	document, err := os.ReadFile("testdata/document.js")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(page, "<script>\n'use strict';")
	code, _, _ = strings.Cut(code, "</script>")
	elements := [][]string{}
	for _, found := range regexp.MustCompile(`<(\w+)[^>]* id="?([\w-]+)"?`).FindAllStringSubmatch(page, -1) {
		elements = append(elements, found[1:])
	}
	list, _ := json.Marshal(elements) // it always succeeds
	file := filepath.Join(t.TempDir(), "page.js")
	const end = "\n(async () => {\nconst results = {}, report = (name, value) => { results[name] = value; };\n%s\nconsole.log(JSON.stringify(results));\nprocess.exit(0);\n})();\n"
	text := fmt.Sprintf("const elements = %s;\n%s%s"+end, list, document, code, steps)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node, file).CombinedOutput()
	if err != nil || json.Unmarshal(out, &results) != nil {
		t.Fatalf("the script: %v: %s", err, out)
	}
	return results
}

func TestScript(t *testing.T) {
	t.Run("DF-73 the page shows states and objects with all fields absent", func(t *testing.T) {
		got := script(t, `
await settle();
const odd = [null, {}, {time: null, election: {}, certificates: null}];
for (const [id] of sections) odd.push({[id]: null}, {[id]: [null]}, {[id]: [{}]}, {[id]: [{object: null}]}, {[id]: [{object: {}}]}, {[id]: {}});
for (const state of odd) { show(state); await settle(); }
report('state', body.textContent);
const objects = [null, {}, {object: null}, {object: {}, running: null, records: null, decisions: null, notes: null},
	{running: [null], records: [null], decisions: [null]}, {running: [{}], records: [{}], decisions: [{}]}, {decisions: [{handlers: [null, {}]}]}];
const shown = [];
for (const o of objects) {
	answers = {'api/v1/objects/': [200, o]};
	location.hash = '#Website/default/home';
	await settle();
	shown.push(look('told').textContent, look('parts').textContent);
}
report('objects', shown.join(' '));
for (const found of [null, {}, {objects: null}, {objects: [null, {}, {object: {}}]}]) {
	answers = {'api/v1/objects?': [200, found]};
	location.hash = '#?x';
	await settle();
}
report('list', look('count').textContent + ' ' + look('found').textContent);
for (const h of [null, {}, {waiting: null, failed: [null, 'x']}]) {
	answers = {'api/v1/history': [200, h]};
	plotted = 0;
	await plot();
}
report('plot', look('p-failed').getAttribute('points'));
answers = {};
for (const hash of ['#%E0%A4%A', '#?%E0%A4%A', '#a/b/c/d', '#?']) { location.hash = hash; await settle(); }
report('asked', fetched.length);
`)
		for name, value := range got {
			if text := fmt.Sprint(value); regexp.MustCompile(`undefined|null|NaN|Invalid|TypeError|\[object`).MatchString(text) {
				t.Errorf("%s: the page shows %s", name, text)
			}
		}
		if !strings.Contains(fmt.Sprint(got["objects"]), "Decisions None.") {
			t.Errorf("the objects are shown as %v", got["objects"])
		}
	})
	t.Run("DF-73 the title names the operator and the cluster, and expected codes are not red", func(t *testing.T) {
		got := script(t, `
show({operator: 'websites', cluster: 'prod', version: '1.2', requests: ['200', '404', '409', '410', '403', '500', '<error>'].map(code => ({verb: 'get', code, count: 1}))});
report('title', document.title);
report('heading', look('title').textContent + ', ' + look('version').textContent);
report('red', rows(look('s-requests').querySelector('table')).filter(r => r[1].look === 'bad').map(r => r[1].text));
show({});
report('unnamed', document.title);
`)
		want := map[string]any{
			"title": "websites on prod", "heading": "websites on prod, kopf 1.2", "unnamed": "Operator",
			"red": []any{"<error>", "403", "500"},
		}
		for name := range want {
			if fmt.Sprint(got[name]) != fmt.Sprint(want[name]) {
				t.Errorf("%s: got %v, want %v", name, got[name], want[name])
			}
		}
	})
	t.Run("DF-73 times are for people", func(t *testing.T) {
		got := script(t, `
const at = s => new Date(Date.parse('2026-01-02T03:04:05Z') + 1000 * s).toISOString();
show({time: at(0), started: at(-7300)});
answers = {'api/v1/objects/': [200, {object: {kind: 'Website', name: 'home'}, state: 'delayed', running: [{handler: 'create', since: at(-5)}],
	records: [{handler: 'create', nextAttempt: at(600)}], decisions: [{time: at(-200), decision: 'x'}]}]};
location.hash = '#Website/home';
await settle();
const tables = look('parts').children.filter(c => c.tag === 'table').map(rows);
report('texts', [tables[0][0][1], tables[1][0][2], tables[2][0][0]].map(c => c.text));
report('titles', [tables[0][0][1], tables[1][0][2], tables[2][0][0]].map(c => c.title !== ''));
report('shown', look('told').textContent);
`)
		for name, want := range map[string]string{
			"texts": "[5 s in 10 min 3 min ago]", "titles": "[true true true]", "shown": "delayed.",
		} {
			if fmt.Sprint(got[name]) != want {
				t.Errorf("%s: got %v, want %s", name, got[name], want)
			}
		}
	})
	t.Run("DF-73 objects are searched, listed, and linked; the last hour is plotted", func(t *testing.T) {
		got := script(t, `
answers = {'api/v1/objects?': [200, {objects: [{object: {kind: 'Website', namespace: 'web', name: 'a b'}, resource: 'websites.v1.example.com', state: 'idle'}], omitted: 7}],
	'api/v1/history': [200, {intervalSeconds: 30, waiting: [0, 4, 2], succeeded: [1, 1, 1000], failed: [0, 0, 3]}]};
look('text').value = ' a b ';
look('find').listeners.submit({preventDefault() {}});
await settle();
report('asked', fetched[fetched.length - 1]);
report('row', rows(look('found'))[0].map(c => c.text));
report('href', look('found').querySelector('a').getAttribute('href'));
report('count', look('count').textContent);
report('hidden', [look('all').hidden, look('one').hidden, look('list').hidden]);
location.hash = '';
show({});
await settle();
report('captions', ['waiting', 'succeeded', 'failed'].map(n => look('c-' + n).textContent));
report('points', look('p-waiting').getAttribute('points'));
report('hour', look('hour').hidden);
`)
		for name, want := range map[string]string{
			"asked": "api/v1/objects?q=a%20b", "row": "[Website web/a b websites.v1.example.com idle]",
			"href": "#websites.v1.example.com/web/a%20b", "count": "1 found. 7 more are not shown.",
			"hidden": "[true true false]", "hour": "false", "points": "236,38 238,2 240,20",
			"captions": "[Objects that wait for a worker: 2, at most 4 Calls that succeeded: 1,002 Calls that failed: 3]",
		} {
			if fmt.Sprint(got[name]) != want {
				t.Errorf("%s: got %v, want %s", name, got[name], want)
			}
		}
	})
}
