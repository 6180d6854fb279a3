package inspection

import (
	"context"
	"fmt"
	"time"
)

// pauseAge is how long the result is cached, for many objects, and for watches without an end.
const pauseAge = 10 * time.Second

// Peering finds the peers that an operator pauses for. It is not safe for concurrent use.
type Peering struct {
	Name     string // of the peering objects, if they are mandatory; else ""
	Priority int    // of the operator
	pauses   map[string]*Pause
}

// Pause says which peer the operator pauses for in a namespace.
type Pause struct {
	By       string // "" for none
	Err      error  // why By is unknown, or what to do about it
	Reported bool   // the error was printed
	at       time.Time
}

// In returns the pause of the operator in a namespace, given its peering objects. Without their name, it ignores those that cannot be read.
func (p *Peering) In(ctx context.Context, server Server, namespace string, paths []string) *Pause {
	known := p.pauses[namespace]
	if known != nil && time.Since(known.at) < pauseAge {
		return known
	}
	now := &Pause{at: time.Now(), Reported: known != nil && known.Reported}
	by, found, err := pausedBy(ctx, server, paths, p.Priority)
	switch now.By = by; {
	case p.Name == "" || found:
	case err != nil:
		now.Err = err
	default:
		now.By = fmt.Sprintf("the mandatory peering object %q, which does not exist", p.Name)
		now.Err = fmt.Errorf("there is no peering object %q: the operator pauses until it exists", p.Name)
	}
	if p.pauses == nil {
		p.pauses = make(map[string]*Pause)
	}
	p.pauses[namespace] = now
	return now
}

// AddPause records that the operator pauses, or why that is unknown.
func (x *Explanation) AddPause(p *Pause) {
	if p.By != "" {
		x.Prevent("the operator pauses for " + p.By)
	} else if p.Err != nil {
		x.Notes = append(x.Notes, p.Err.Error())
	}
}

// AddHolder records which replica holds the Lease at a path.
func (x *Explanation) AddHolder(ctx context.Context, server Server, name, path string) {
	holder, found, err := holderOf(ctx, server, path)
	switch {
	case err != nil:
		x.Notes = append(x.Notes, err.Error())
	case !found:
		x.Prevent(fmt.Sprintf("no replica holds the Lease %q, which does not exist", name))
	case holder == "":
		x.Prevent(fmt.Sprintf("no replica holds the Lease %q", name))
	default:
		x.Notes = append(x.Notes, fmt.Sprintf("The Lease %q is held by %s: that replica calls the handlers", name, holder))
	}
}

// AddMissing records the permissions for a resource that a service account, as "namespace/name", lacks.
func (x *Explanation) AddMissing(ctx context.Context, server Server, account, group, plural, namespace string) {
	lacks, err := missing(ctx, server, account, group, plural, namespace)
	if err != nil {
		x.Notes = append(x.Notes, err.Error())
	} else if lacks != "" {
		if group != "" {
			plural += "." + group
		}
		x.Prevent(fmt.Sprintf("the account %s has no permission to %s %s", account, lacks, plural))
	}
}
