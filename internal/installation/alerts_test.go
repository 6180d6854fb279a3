package installation

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kopf-go/kopf/internal/metrics"
	"github.com/kopf-go/kopf/internal/yaml"
)

// observed returns the dashboard and the alerting rules for a model.
func observed(t *testing.T, m *Model) (dashboard map[string]any, rules []any) {
	t.Helper()
	objects, err := m.Asked([]string{"dashboard", "alerts"})
	if err != nil {
		t.Fatal(err)
	}
	read, err := yaml.ParseManifests([]byte(Documents(objects)))
	if err != nil || len(read) != 2 || read[0]["kind"] != "ConfigMap" || read[1]["kind"] != "PrometheusRule" {
		t.Fatalf("got %v, %v", read, err)
	}
	text, _ := read[0]["data"].(map[string]any)[m.Name+".json"].(string)
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	groups := read[1]["spec"].(map[string]any)["groups"].([]any)
	return dashboard, groups[0].(map[string]any)["rules"].([]any)
}

func full() *Model {
	return &Model{Name: "web", Home: "ops", Lease: "web", Reconciling: true, Children: true}
}

func plain() *Model { return &Model{Name: "web", Home: "ops"} }

// queriesOf returns the expressions of a dashboard, and the titles of its rows.
func queriesOf(dashboard map[string]any) (expressions, rows []string) {
	for _, p := range dashboard["panels"].([]any) {
		panel := p.(map[string]any)
		if panel["type"] == "row" {
			rows = append(rows, panel["title"].(string))
			continue
		}
		for _, target := range panel["targets"].([]any) {
			expressions = append(expressions, target.(map[string]any)["expr"].(string))
		}
	}
	return expressions, rows
}

func TestAlerts(t *testing.T) {
	_, rules := observed(t, full())
	_, few := observed(t, plain())
	t.Run("OB-36 each alert has a summary, and a place in the runbook", func(t *testing.T) {
		runbook, err := os.ReadFile("../../docs/runbook.md")
		if err != nil {
			t.Fatal(err)
		}
		if len(rules) != len(alerts) || len(few) != len(rules)-1 {
			t.Errorf("there are %d and %d rules", len(rules), len(few))
		}
		for _, r := range rules {
			rule := r.(map[string]any)
			name, about := rule["alert"].(string), rule["annotations"].(map[string]any)
			if about["summary"] == "" || about["runbook_url"] != Runbook+"#"+strings.ToLower(name) {
				t.Errorf("%s has the annotations %v", name, about)
			}
			_, part, found := strings.Cut(string(runbook), "\n## "+name+"\n")
			part, _, _ = strings.Cut(part, "\n## ")
			if !found {
				t.Errorf("the runbook has nothing on %s", name)
			}
			t.Run("OB-37 the runbook says what "+name+" means, what to look at, and what to do", func(t *testing.T) {
				for _, what := range []string{"**Meaning.**", "**Look at.**", "**Do.**"} {
					if !strings.Contains(part, what) {
						t.Errorf("it has no %s", what)
					}
				}
			})
		}
		if n := strings.Count(string(runbook), "\n## Kopf"); n != len(rules) {
			t.Errorf("the runbook has %d alerts, want %d", n, len(rules))
		}
	})
}

func TestDashboard(t *testing.T) {
	dashboard, rules := observed(t, full())
	expressions, rows := queriesOf(dashboard)
	t.Run("OB-35 the dashboard has its rows, for what is registered", func(t *testing.T) {
		if got, want := strings.Join(rows, ", "), "Health, Work, Failures, Streams, API server, Children, Process"; got != want {
			t.Errorf("got the rows %s, want %s", got, want)
		}
		less, _ := observed(t, plain())
		few, rows := queriesOf(less)
		if got, want := strings.Join(rows, ", "), "Health, Work, Failures, Streams, API server, Process"; got != want {
			t.Errorf("got the rows %s, want %s", got, want)
		}
		if text := strings.Join(few, "\n"); strings.Contains(text, "leader_election") || strings.Contains(text, "controller_runtime") || strings.Contains(text, "children") {
			t.Errorf("got the queries %s", text)
		}
		places := map[string]bool{}
		for _, p := range dashboard["panels"].([]any) {
			place, _ := json.Marshal(p.(map[string]any)["gridPos"])
			if places[string(place)] {
				t.Errorf("two panels are at %s", place)
			}
			places[string(place)] = true
		}
	})
	t.Run("OB-T10 all metrics in queries are those of an operator", func(t *testing.T) {
		m := metrics.New(metrics.State{Paused: func() bool { return false }, Goroutines: func() int { return 1 }}, nil)
		m.SetReconciling(noChildren{})
		var page bytes.Buffer
		if err := m.Write(&page, false); err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			expressions = append(expressions, r.(map[string]any)["expr"].(string))
		}
		for _, e := range expressions {
			names := regexp.MustCompile(`\b(kopf|process|workqueue|controller_runtime|leader_election|rest_client)_\w+`).FindAllString(e, -1)
			if len(names) == 0 || strings.Contains(e, "@") {
				t.Errorf("the query %s", e)
			}
			for _, name := range names {
				if !strings.Contains(page.String(), "# TYPE "+strings.TrimSuffix(name, "_bucket")+" ") {
					t.Errorf("%s: there is no metric %s", e, name)
				}
			}
		}
	})
}

// noChildren has no children.
type noChildren struct{}

func (noChildren) CountChildren() metrics.Children { return nil }
