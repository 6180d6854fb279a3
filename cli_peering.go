package kopf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/hostid"
)

// This file knows the commands that tell operators to pause and to go on, by records in their peering objects. A command runs on
// the goroutine of its caller, and ends when all is written.

// changePeering runs freeze or resume.
func (c *command) changePeering(ctx context.Context, name string, args []string) int {
	o := runOptions{priority: 100}
	help, err := o.parse(name, args, os.Getenv)
	if err != nil {
		return c.misused(name, err)
	}
	if help {
		fmt.Fprint(c.stdout, helpOf(name))
		return 0
	}
	o.log.Output = c.stderr
	settings := NewSettings()
	settings.Networking.ErrorBackoffs = nil // there is a person who waits
	op := &Operator{Settings: settings, Namespaces: o.namespaces, Logger: ConfigureLogging(&o.log), Kubeconfig: o.kubeconfig, Context: o.context}
	r, err := op.prepare()
	if err == nil {
		err = r.connect()
	}
	if err == nil {
		defer r.client.close()
		t := &peeringCommand{run: r, command: c, options: &o, verb: name}
		err = t.writeAll(ctx)
	}
	if err != nil {
		fmt.Fprintf(c.stderr, "%s %s: %s\n", program(), name, oneLine(err))
		return exitFailure
	}
	return 0
}

// peeringCommand is one call of freeze or resume.
type peeringCommand struct {
	*run
	command *command
	options *runOptions
	verb    string
	id      string
	done    int
}

// writeAll writes into all peering objects of the name that there are, or removes from them.
func (t *peeringCommand) writeAll(ctx context.Context) error {
	if t.id = t.options.id; t.id == "" {
		if t.id = os.Getenv("POD_ID"); t.id == "" {
			t.id = hostid.UserAtHost()
		} else {
			fmt.Fprintf(t.command.stderr, "The record is that of the pod, %q, and so of its operator, if there is one: --id gives it another name.\n", t.id)
		}
	}
	found, broken, err := t.client.discover(ctx, peeringGroups)
	for _, group := range broken {
		err = errors.Join(err, group)
	}
	if err != nil {
		return err
	}
	namespaces, err := t.namespaces(ctx)
	if err != nil {
		return err
	}
	exists := false
	var failures []error
	for _, r := range found {
		if !isPeering(r, t.Clusterwide) {
			continue
		}
		exists = true
		for _, namespace := range namespaces {
			if err := t.writeOne(ctx, r, namespace); err != nil {
				failures = append(failures, err)
			}
		}
	}
	if !exists {
		return errors.New("there is no resource of peering objects in the cluster")
	}
	if t.done == 0 && len(failures) == 0 {
		failures = append(failures, fmt.Errorf("no peering object %q was found", t.options.peering))
	}
	return errors.Join(failures...)
}

// writeOne does it in one object. A missing one is no failure: it may be elsewhere.
func (t *peeringCommand) writeOne(ctx context.Context, r Resource, namespace string) error {
	name := t.options.peering
	where := strings.TrimSuffix(fmt.Sprintf("%s %q in %s", r.Name(), name, namespace), " in ")
	body, err := t.client.object(ctx, r, namespace, name)
	if StatusCode(err) == 404 {
		fmt.Fprintf(t.command.stderr, "There is no %s.\n", where)
		return nil
	} else if err != nil {
		return err
	}
	var record any
	what := "is removed from"
	if t.verb == "freeze" {
		lifetime := time.Duration(t.options.lifetime) * time.Second
		record = peeringRecord(t.options.peeringPriority(), lifetime)
		what = fmt.Sprintf("with priority %d is in force for %s in", t.options.peeringPriority(), lifetime)
	} else if !body.Has(Path("status", t.id)) {
		return fmt.Errorf("there is no record of %q in %s, only of %q", t.id, where, body.Status().Keys())
	}
	if _, err := writePeering(ctx, t.client, r, namespace, name, "", map[string]any{t.id: record}); err != nil {
		return err
	}
	t.done++
	if t.options.message != "" {
		where += ": " + t.options.message
	}
	fmt.Fprintf(t.command.stdout, "The record of %q %s %s.\n", t.id, what, strings.TrimSuffix(where, "."))
	return nil
}

// namespaces returns those in which the peering objects are; it lists them only if there are patterns.
func (t *peeringCommand) namespaces(ctx context.Context) ([]string, error) {
	if t.Clusterwide {
		return []string{""}, nil
	}
	if !strings.ContainsAny(strings.Join(t.Namespaces, ""), "!*?[,") {
		return t.Namespaces, nil
	}
	var names []string
	_, err := t.client.list(ctx, namespacesResource, "", map[string][]string{}, t.Settings.Watching.PageSize, false, func(b *Body) bool {
		for _, pattern := range t.Namespaces {
			if matchNamespace(pattern, b.name) {
				names = append(names, b.name)
				break
			}
		}
		return true
	})
	return names, err
}
