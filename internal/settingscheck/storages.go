package settingscheck

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kopf-go/kopf/internal/markers"
	"github.com/kopf-go/kopf/internal/validation"
)

// Persistence has the settings about data stored on objects.
type Persistence struct {
	Finalizer        string
	LegacyFinalizers []string
	InStatus         bool    // storages for both places use the status
	Progress, States Setting // the storages of handler progress and of last-handled states
}

// Setting is the setting of a storage.
type Setting struct {
	name  string // "ProgressStorage" or "DiffBaseStorage"
	value any
	all   []Storage // known types only
	errs  []error
}

// NewSetting returns the setting of a storage. Describe returns the places that a storage uses. It reports false for a user's storage type.
func NewSetting(name string, value any, describe func(storage any) (Storage, bool)) Setting {
	s := Setting{name: name, value: value}
	s.add("Settings.Persistence."+name, value, describe)
	return s
}

// add adds a storage, or those of a list. The list must not be empty or contain nil.
func (s *Setting) add(setting string, storage any, describe func(storage any) (Storage, bool)) {
	value := reflect.ValueOf(storage)
	list := reflect.Indirect(value)
	switch {
	case !value.IsValid():
		s.errs = append(s.errs, fmt.Errorf("invalid %s nil: want a storage", setting))
	case !list.IsValid():
		s.errs = append(s.errs, fmt.Errorf("invalid %s (%T)(nil): want a storage", setting, storage))
	case list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Interface:
		if d, ok := describe(storage); ok {
			d.setting, d.progress = setting, s.name == "ProgressStorage"
			s.all = append(s.all, d)
		}
	case list.Len() == 0:
		s.errs = append(s.errs, fmt.Errorf("invalid %s %T{}: want at least one storage", setting, storage))
	default:
		for i := range list.Len() {
			s.add(fmt.Sprintf("%s[%d]", setting, i), list.Index(i).Interface(), describe)
		}
	}
}

// Prefixes returns the prefixes of the annotations.
func (s Setting) Prefixes() (all []string) {
	for _, one := range s.all {
		if one.annotated {
			all = append(all, one.prefix)
		}
	}
	return all
}

// listed reports whether the setting is a list.
func (s Setting) listed() bool {
	return reflect.Indirect(reflect.ValueOf(s.value)).Kind() == reflect.Slice
}

// follows reports whether Settings.Persistence.Storage affects the storage.
func (s Setting) follows() bool { return !s.listed() && len(s.all) == 1 && s.all[0].follows() }

// Storage describes where an operator stores handler progress or last-handled states: in annotations, in the status, or in both.
type Storage struct {
	setting  string // path of the setting, such as "Settings.Persistence.ProgressStorage[1]"
	progress bool   // stores handler progress, not states

	annotated bool
	prefix    string // of the annotations
	key       string // of the annotation with the state, or of the touched one
	v2Only    bool   // no keys in the form of old versions

	Field   []string // status path of the progress or the state; nil for none
	Touched []string // status path of the touched field; nil for none

	Ignored [][]string // paths of fields that are not tracked
}

// InAnnotations sets the annotations of a storage. "" is the default prefix.
func (s *Storage) InAnnotations(prefix, key string, v2Only bool) {
	s.annotated, s.prefix, s.key, s.v2Only = true, cmp.Or(prefix, markers.DefaultPrefix), key, v2Only
}

// follows reports whether the storage supports both places.
func (s *Storage) follows() bool { return s.annotated && s.Field != nil }

// Warnings returns warnings about the settings.
func (p *Persistence) Warnings() (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, prefix := range append(p.Progress.Prefixes(), p.States.Prefixes()...) {
		if len(prefix) > maxPrefixLength {
			warn("the prefix %q of annotations is longer than %d characters: Kubernetes may refuse its keys", prefix, maxPrefixLength)
		}
		if strings.HasPrefix(prefix, "kopf.") && prefix != markers.DefaultPrefix {
			warn("the prefix %q of annotations begins with \"kopf.\": other operators do not see that its annotations are those of an operator, and take them for changes; use another one", prefix)
		}
	}
	all = slices.Compact(all)
	if forgotten, own := p.halfPrefixed(); forgotten != "" {
		warn("Settings.Persistence.%s has the prefix %q, which other operators have, too, but the other storage has the prefix %q: set the prefix of both",
			forgotten, markers.DefaultPrefix, own)
	}
	if !strings.Contains(p.Finalizer, "/") {
		warn("the finalizer %q has no domain: Kubernetes takes it for custom resources alone; use one such as \"example.com/finalizer\"", p.Finalizer)
	}
	if !p.InStatus {
		return all
	}
	for _, s := range []Setting{p.Progress, p.States} {
		custom := !s.listed() && len(s.all) == 0 // the author of a custom storage is responsible, unless only the other one follows
		if s.listed() || custom && !p.Progress.follows() && !p.States.follows() || !custom && s.all[0].Field == nil {
			warn("Settings.Persistence.Storage = InStatus has no effect on Settings.Persistence.%s, which is a %T: only a *kopf.Smart%[1]s follows it", s.name, s.value)
		}
	}
	return all
}

// halfPrefixed returns the name of the setting that has the default prefix while the other one has
// a prefix of its own, with that prefix. Lists with a common prefix move from one to the other.
func (p *Persistence) halfPrefixed() (name, own string) {
	progress, states := p.Progress.Prefixes(), p.States.Prefixes()
	common := func(prefix string) bool { return slices.Contains(states, prefix) }
	switch {
	case len(progress) == 0 || len(states) == 0 || slices.ContainsFunc(progress, common):
		return "", ""
	case slices.Contains(progress, markers.DefaultPrefix):
		return p.Progress.name, states[0]
	case slices.Contains(states, markers.DefaultPrefix):
		return p.States.name, progress[0]
	}
	return "", ""
}

// maxPrefixLength leaves room for a slash and a name within the 253 characters that Kubernetes allows.
const maxPrefixLength = 253 - markers.MaxNameLength - 1

// Errors validates the settings, given the IDs of the handlers with stored progress, and of those that may have results.
func (p *Persistence) Errors(stored, resulting []string) (errs []error) {
	errs = slices.Concat(finalizers(p.Finalizer, p.LegacyFinalizers), p.Progress.errs, p.States.errs)
	var places []place
	for _, s := range slices.Concat(p.Progress.all, p.States.all) {
		wrong := s.check(resulting, p.InStatus || !s.follows())
		if errs = append(errs, wrong...); len(wrong) == 0 {
			places = append(places, s.annotationPlaces(stored)...)
			places = append(places, s.statusPlaces()...)
		}
	}
	for i, one := range places {
		for _, other := range places[:i] {
			if !one.overlaps(other) || one.setting+other.setting == "" {
				continue
			}
			if one.setting == "" {
				one, other = other, one
			}
			return append(errs, fmt.Errorf("invalid %s: want a place apart from %s", one.setting, other.what))
		}
	}
	return errs
}

// place is an annotation or a field that is written on an object.
type place struct {
	setting string // the setting that determines it, with its value; "" for none
	what    string // for messages
	purpose string
	path    []string
	subs    bool // sub-handlers may extend the last key, after a dot
}

// check validates one storage, and checks that no handler result collides with it in the status.
func (s *Storage) check(resulting []string, stores bool) (errs []error) {
	if s.annotated {
		if !validation.IsDNSSubdomain(strings.ToLower(s.prefix)) || len(s.prefix) > 253 { // Kubernetes accepts upper case in annotations
			errs = append(errs, invalid(s.setting+".Prefix", s.prefix, `a domain such as "example.com"`))
		}
		if !validation.IsName(markers.ReplaceUnsafe(s.key), "-_.") {
			errs = append(errs, invalid(s.keySetting(), s.key, "letters and digits, with '-', '_' and '.' between them"))
		}
	}
	for i, path := range [][]string{s.Field, s.Touched} {
		setting := []string{".Field", ".TouchField"}[i]
		switch {
		case path == nil:
		case len(path) < 2 || path[0] != "status" || slices.Contains(path, ""): // elsewhere, it would overwrite the users' values
			errs = append(errs, invalid(s.setting+setting, strings.Join(path, "."), `a field of the status, such as "status.kopf.progress"`))
		case stores && slices.Contains(resulting, path[1]):
			errs = append(errs, invalid(s.setting+setting, strings.Join(path, "."), "a field apart from %q, where the result of the handler with that ID is stored", "status."+path[1]))
		}
	}
	for i, path := range s.Ignored {
		if len(path) == 0 || slices.Contains(path, "") {
			setting := fmt.Sprintf("%s.IgnoredFields[%d]", s.setting, i)
			errs = append(errs, invalid(setting, strings.Join(path, "."), `keys joined by dots, such as "spec.replicas"`))
		}
	}
	return errs
}

func (s *Storage) keySetting() string {
	if s.progress {
		return s.setting + ".TouchKey"
	}
	return s.setting + ".Key"
}

// annotationPlaces returns the annotations that a storage may write.
func (s *Storage) annotationPlaces(stored []string) (all []place) {
	if !s.annotated {
		return nil
	}
	add := func(setting, what, purpose, key string, v2Only bool) {
		for _, key := range markers.AnnotationKeys(s.prefix+"/", key, v2Only) {
			all = append(all, place{setting, what, purpose, []string{"metadata", "annotations", key}, strings.HasPrefix(purpose, "handler ")})
		}
	}
	if s.progress {
		for _, id := range stored {
			add("", fmt.Sprintf("the progress of the handler %q", id), "handler "+id, id, s.v2Only)
		}
	}
	for _, name := range []string{
		markers.HandlingState, markers.FailedHandlers, markers.TrackedFields, markers.HandlingBase, markers.HandledUID,
		markers.Reconciled, markers.Managed,
	} {
		add("", fmt.Sprintf("the annotation %q", s.prefix+"/"+name), name, name, true)
	}
	setting := fmt.Sprintf("%s %q", s.keySetting(), s.key)
	add(setting, setting, s.purpose("touched"), s.key, s.v2Only)
	return all
}

// statusPlaces returns the fields of the status that a storage may write.
func (s *Storage) statusPlaces() (all []place) {
	add := func(name, purpose string, path []string) {
		setting := fmt.Sprintf("%s.%s %q", s.setting, name, strings.Join(path, "."))
		all = append(all, place{setting, setting, purpose, path, false})
	}
	if s.Field != nil {
		add("Field", s.purpose("records"), s.Field)
	}
	if s.Touched != nil {
		add("TouchField", "touched", s.Touched)
	}
	if s.Field == nil || s.progress {
		return all
	}
	for _, name := range []string{markers.TrackedFields, markers.HandlingBase, markers.HandledUID, markers.Reconciled} {
		path := append(slices.Clone(s.Field[:len(s.Field)-1]), name)
		all = append(all, place{"", fmt.Sprintf("the field %q", strings.Join(path, ".")), name, path, false})
	}
	return all
}

// purpose describes the content of a place, with the given text for progress.
func (s *Storage) purpose(progress string) string {
	if s.progress {
		return progress
	}
	return "state"
}

// overlaps reports whether writing one place damages the other. Several storages may write the same place.
func (p place) overlaps(other place) bool {
	if p.purpose == other.purpose && slices.Equal(p.path, other.path) {
		return false
	}
	if p.subs || other.subs {
		return p.continues(other) || other.continues(p)
	}
	n := min(len(p.path), len(other.path))
	return slices.Equal(p.path[:n], other.path[:n])
}

// continues reports whether a place belongs to the given handler, or to one of its sub-handlers.
func (p place) continues(handler place) bool {
	key, own := p.path[len(p.path)-1], handler.path[len(handler.path)-1]
	return p.path[0] == handler.path[0] && (key == own || handler.subs && strings.HasPrefix(key, own+"."))
}
