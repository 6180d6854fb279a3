package inspection

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/peerrecord"
	"github.com/kopf-go/kopf/internal/rawjson"
)

// Server reads from the API server. Values missing in a response are left unchanged.
type Server interface {
	// Get reads a path.
	Get(ctx context.Context, path, accept string, into any) error
	// Post creates something, and reads the answer.
	Post(ctx context.Context, path string, body []byte, into any) error
}

// pausedBy returns what makes an operator with a priority pause, or "": a peer with a higher
// priority, or two with its own one, because only one of them can be the operator itself. It also
// reports whether any of the peering objects at the paths exists.
func pausedBy(ctx context.Context, server Server, paths []string, priority int) (by string, found bool, err error) {
	for _, path := range paths {
		var object struct {
			Metadata struct{ Name string }
			Status   json.RawMessage
		}
		if err := server.Get(ctx, path, "", &object); err != nil {
			return "", found, fmt.Errorf("whether the operator pauses cannot be read: %w", err)
		}
		found = found || object.Metadata.Name != ""
		if by = blockerIn(object.Status, object.Metadata.Name, float64(priority), time.Now()); by != "" {
			return by, true, nil
		}
	}
	return "", found, nil
}

// blockerIn returns what makes an operator with a priority pause in the records of a peering object.
func blockerIn(records json.RawMessage, name string, priority float64, now time.Time) (by string) {
	var same []string
	_ = rawjson.EachMember(records, func(quoted, raw []byte) bool { // malformed records are ignored
		p, err := peerrecord.Read(raw)
		if err != nil || !p.DeadlineAt(now, peerrecord.Peer{}, false).After(now) {
			return true
		}
		switch id := rawjson.Unquote(quoted); {
		case p.Priority > priority:
			by = fmt.Sprintf("%s, which has the priority %v in the peering object %q", id, p.Priority, name)
		case p.Priority == priority:
			same = append(same, id)
		}
		return by == ""
	})
	if by == "" && len(same) > 1 {
		by = fmt.Sprintf("operators with the same priority %v in the peering object %q: %s",
			priority, name, strings.Join(same, ", "))
	}
	return by
}

// holderOf returns the holder of the Lease at a path, or "", and whether there is a Lease.
func holderOf(ctx context.Context, server Server, path string) (holder string, found bool, err error) {
	var lease struct {
		Metadata struct{ Name string }
		Spec     struct {
			HolderIdentity       string
			LeaseDurationSeconds int64
			RenewTime            time.Time
		}
	}
	if err := server.Get(ctx, path, "", &lease); err != nil {
		return "", false, fmt.Errorf("the Lease %q cannot be read: %w", path[strings.LastIndex(path, "/")+1:], err)
	}
	if s := lease.Spec; s.RenewTime.Add(time.Duration(s.LeaseDurationSeconds) * time.Second).After(time.Now()) {
		holder = s.HolderIdentity
	}
	return holder, lease.Metadata.Name != "", nil
}

// missing returns the verbs that change handlers need for a resource and that a service account is not allowed to use, such as "list or watch", or "".
func missing(ctx context.Context, server Server, account, group, resource, namespace string) (string, error) {
	var lacks []string
	for _, verb := range []string{"list", "watch", "patch"} {
		allowed, err := allows(ctx, server, account, verb, group, resource, namespace)
		if err != nil {
			return "", err
		}
		if !allowed {
			lacks = append(lacks, verb)
		}
	}
	if last := len(lacks) - 1; last > 0 {
		return strings.Join(lacks[:last], ", ") + " or " + lacks[last], nil
	}
	return strings.Join(lacks, ""), nil
}

// allows checks whether a service account, as "namespace/name", has a permission for a resource in a namespace.
func allows(ctx context.Context, server Server, account, verb, group, resource, namespace string) (bool, error) {
	home, name, _ := strings.Cut(account, "/")
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{
		"user": "system:serviceaccount:" + home + ":" + name, "groups": []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
		"resourceAttributes": map[string]any{"verb": verb, "group": group, "resource": resource, "namespace": namespace},
	}})
	if err != nil {
		return false, err
	}
	var answer struct{ Status struct{ Allowed bool } }
	if err := server.Post(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", body, &answer); err != nil {
		return false, fmt.Errorf("the permissions (RBAC) of %s cannot be checked: %w", account, err)
	}
	return answer.Status.Allowed, nil
}
