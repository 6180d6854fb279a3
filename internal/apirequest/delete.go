package apirequest

import (
	"math"
	"time"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// DeleteOptions are the options of a deletion. The fields are those of kopf.DeleteOptions.
type DeleteOptions struct {
	GracePeriod     *time.Duration
	Propagation     string
	UID             string
	ResourceVersion string
	DryRun          bool
}

// Encode returns the options as JSON.
func (o *DeleteOptions) Encode() ([]byte, error) {
	body := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions"}
	if o.GracePeriod != nil {
		body["gracePeriodSeconds"] = int64(math.Ceil(o.GracePeriod.Seconds()))
	}
	if o.Propagation != "" {
		body["propagationPolicy"] = o.Propagation
	}
	preconditions := map[string]any{}
	if o.UID != "" {
		preconditions["uid"] = o.UID
	}
	if o.ResourceVersion != "" {
		preconditions["resourceVersion"] = o.ResourceVersion
	}
	if len(preconditions) > 0 {
		body["preconditions"] = preconditions
	}
	if o.DryRun {
		body["dryRun"] = []string{"All"}
	}
	return rawjson.Encode(body)
}
