// Command 11-filtering-handlers shows how handlers select objects and changes: by labels, annotations and fields, by their absence, and by functions.
package main

import (
	"context"
	"strings"

	"github.com/kopf-go/kopf"
)

func main() {
	some := func(v *kopf.FieldValue) bool { s, _ := v.Value.(string); return strings.HasPrefix(s, "some") }
	for _, options := range []kopf.ChangeOptions{
		{ID: "label_equal", Labels: kopf.Match{"somelabel": "somevalue"}},
		{ID: "label_present", Labels: kopf.Match{"somelabel": kopf.Present}},
		{ID: "label_absent", Labels: kopf.Match{"nosuchlabel": kopf.Absent}},
		{ID: "label_function", Labels: kopf.Match{"somelabel": some}},
		{ID: "label_other", Labels: kopf.Match{"somelabel": "othervalue"}}, // not called
		{ID: "annotation_equal", Annotations: kopf.Match{"someannotation": "somevalue"}},
		{ID: "annotation_present", Annotations: kopf.Match{"someannotation": kopf.Present}},
		{ID: "field_present", Field: "spec.field"},
		{ID: "field_equal", Field: "spec.field", Value: "value"},
		{ID: "field_absent", Field: "spec.nosuchfield", Value: kopf.Absent},
		{ID: "predicate", When: func(c *kopf.Change) bool { return c.Spec().String("field") == "value" }},
		{ID: "predicate_other", When: func(c *kopf.Change) bool { return false }}, // not called
	} {
		kopf.OnCreate("kopfexamples", matched, &options)
	}
	kopf.OnUpdate("kopfexamples", switched, &kopf.ChangeOptions{Field: "spec.field", Old: "value", New: "changed"})
	kopf.OnDaemon("kopfexamples", accompany, &kopf.DaemonOptions{Field: "spec.field", Value: "value"})
	kopf.Main()
}

func matched(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The filters match.")
	return nil
}

func switched(ctx context.Context, c *kopf.Change) error {
	c.Logger.Info("The field has been switched.", "old", c.Old.String(""), "new", c.New.String(""))
	return nil
}

// accompany runs as long as the object matches.
func accompany(ctx context.Context, d *kopf.Daemon) error {
	<-ctx.Done()
	d.Logger.Info("The object matches no more.", "reason", d.StopReason())
	return nil
}
