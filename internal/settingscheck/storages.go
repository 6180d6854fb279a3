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

// Persistence are the settings of what is stored on objects.
type Persistence struct {
	Finalizer        string
	LegacyFinalizers []string
	InStatus         bool    // whether the storages for both places store in the status
	Progress, States Setting // of handlers, and of what was last handled
}

// Setting is the setting of a storage.
type Setting struct {
	name  string // "ProgressStorage" or "DiffBaseStorage"
	value any
	all   []Storage // those that are known
	errs  []error
}

// NewSetting returns the setting of a storage. Describe returns where a storage keeps what it stores; not of the storages of users.
func NewSetting(name string, value any, describe func(storage any) (Storage, bool)) Setting {
	s := Setting{name: name, value: value}
	s.add("Settings.Persistence."+name, value, describe)
	return s
}

// add notes a storage, or those in a list. A list of storages has at least one, and none is nil.
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

// listed reports whether the setting is a list of storages.
func (s Setting) listed() bool {
	return reflect.Indirect(reflect.ValueOf(s.value)).Kind() == reflect.Slice
}

// follows reports whether Settings.Persistence.Storage has an effect on the storage.
func (s Setting) follows() bool { return !s.listed() && len(s.all) == 1 && s.all[0].follows() }

// Storage is where an operator keeps the progress of handlers or the last handled states: in annotations, in the status, or in both.
type Storage struct {
	setting  string // that has it, such as "Settings.Persistence.ProgressStorage[1]"
	progress bool   // whether it keeps the progress of handlers

	annotated bool
	prefix    string // of the annotations
	key       string // of the one with the state, or of the one that is touched
	v2Only    bool   // whether there are no keys as old versions made them

	Field   []string // in the status, with the records or the state; nil for none
	Touched []string // in the status, what is touched; nil for nothing
}

// InAnnotations notes the annotations of a storage; "" is the default prefix.
func (s *Storage) InAnnotations(prefix, key string, v2Only bool) {
	s.annotated, s.prefix, s.key, s.v2Only = true, cmp.Or(prefix, markers.DefaultPrefix), key, v2Only
}

// follows reports whether the storage is one for both places.
func (s *Storage) follows() bool { return s.annotated && s.Field != nil }

// Warnings returns what is doubtful about the settings.
func (p *Persistence) Warnings() (all []string) {
	for _, prefix := range append(p.Progress.Prefixes(), p.States.Prefixes()...) {
		if len(prefix) > maxPrefixLength {
			all = append(all, fmt.Sprintf("the prefix %q of annotations is longer than %d characters: Kubernetes may refuse its keys", prefix, maxPrefixLength))
		}
		if strings.HasPrefix(prefix, "kopf.") && prefix != markers.DefaultPrefix {
			all = append(all, fmt.Sprintf("the prefix %q of annotations begins with \"kopf.\": other operators do not see that its annotations are those of an operator, and take them for changes; use another one", prefix))
		}
	}
	all = slices.Compact(all)
	if !strings.Contains(p.Finalizer, "/") {
		all = append(all, fmt.Sprintf("the finalizer %q has no domain: Kubernetes takes it for custom resources alone; use one such as \"example.com/finalizer\"", p.Finalizer))
	}
	if !p.InStatus {
		return all
	}
	for _, s := range []Setting{p.Progress, p.States} {
		custom := !s.listed() && len(s.all) == 0 // whose author knows what it does, as long as the other one follows
		if s.listed() || custom && !p.Progress.follows() && !p.States.follows() || !custom && s.all[0].Field == nil {
			all = append(all, fmt.Sprintf("Settings.Persistence.Storage = InStatus has no effect on Settings.Persistence.%s, which is a %T: only a *kopf.Smart%[1]s follows it", s.name, s.value))
		}
	}
	return all
}

// maxPrefixLength is the length up to which every key is valid, as Kubernetes allows prefixes of 253 characters with the name.
const maxPrefixLength = 253 - markers.MaxNameLength - 1

// Errors returns what is wrong with the settings, given the IDs of the handlers whose progress is stored, and of those that may have results.
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

// place is what is written on an object.
type place struct {
	setting string // that decides about it, with its value; "" if none does
	what    string // for messages
	purpose string
	path    []string
	subs    bool // whether the last key may go on with a dot, for sub-handlers
}

// check returns what is wrong with a storage alone, and whose results are in the way if it stores in the status.
func (s *Storage) check(resulting []string, stores bool) (errs []error) {
	if s.annotated {
		if !validation.IsDNSSubdomain(strings.ToLower(s.prefix)) || len(s.prefix) > 253 { // Kubernetes takes upper case in annotations
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
		case len(path) < 2 || path[0] != "status" || slices.Contains(path, ""): // elsewhere, it would take the place of what users have written
			errs = append(errs, invalid(s.setting+setting, strings.Join(path, "."), `a field of the status, such as "status.kopf.progress"`))
		case stores && slices.Contains(resulting, path[1]):
			errs = append(errs, invalid(s.setting+setting, strings.Join(path, "."), "a field apart from %q, where the result of the handler with that ID is stored", "status."+path[1]))
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
	for _, name := range []string{markers.HandlingState, markers.TrackedFields, markers.HandlingBase, markers.HandledUID, markers.Managed} {
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
	for _, name := range []string{markers.TrackedFields, markers.HandlingBase, markers.HandledUID} {
		path := append(slices.Clone(s.Field[:len(s.Field)-1]), name)
		all = append(all, place{"", fmt.Sprintf("the field %q", strings.Join(path, ".")), name, path, false})
	}
	return all
}

// purpose returns what a place is for: of storages of progress as given.
func (s *Storage) purpose(progress string) string {
	if s.progress {
		return progress
	}
	return "state"
}

// overlaps reports whether what is written to one place is in the way of the other. Several storages may write the same.
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

// continues reports whether a place is that of a handler, or one of its sub-handlers, that is given.
func (p place) continues(handler place) bool {
	key, own := p.path[len(p.path)-1], handler.path[len(handler.path)-1]
	return p.path[0] == handler.path[0] && (key == own || handler.subs && strings.HasPrefix(key, own+"."))
}
