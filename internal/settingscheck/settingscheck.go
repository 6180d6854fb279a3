// Package settingscheck finds what is wrong with the settings of an operator, before that wrong is done to objects.
package settingscheck

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/kopf-go/kopf/internal/validation"
)

// kubernetesFinalizers are those whose meaning Kubernetes has defined: an operator that uses or removes them breaks the deletion of other objects.
var kubernetesFinalizers = []string{"orphan", "foregroundDeletion", "kubernetes"}

// invalid returns an error in the form that all errors about settings have.
func invalid(setting string, value any, want string, args ...any) error {
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	return fmt.Errorf("invalid %s %v: want %s", setting, value, fmt.Sprintf(want, args...))
}

// Numbers returns what is wrong with the numbers and durations in the groups of the settings: they cannot be negative, but for those named.
func Numbers(settings any, signed ...string) (errs []error) {
	groups := reflect.Indirect(reflect.ValueOf(settings))
	for i := range groups.NumField() {
		group := groups.Type().Field(i).Name
		for j := range groups.Field(i).NumField() {
			field := groups.Field(i).Type().Field(j)
			name := group + "." + field.Name
			if !field.IsExported() || slices.Contains(signed, name) {
				continue
			}
			switch value := groups.Field(i).Field(j).Interface().(type) {
			case int:
				if value < 0 {
					errs = append(errs, invalid("Settings."+name, value, "zero or more"))
				}
			case time.Duration:
				if value < 0 {
					errs = append(errs, invalid("Settings."+name, value, "zero or more"))
				}
			case []time.Duration:
				if slices.ContainsFunc(value, func(d time.Duration) bool { return d < 0 }) {
					errs = append(errs, invalid("Settings."+name, value, "durations of zero or more"))
				}
			}
		}
	}
	return errs
}

// finalizers returns what is wrong with the finalizer of an operator, and with those that it removes.
func finalizers(finalizer string, legacy []string) (errs []error) {
	for i, name := range append([]string{finalizer}, legacy...) {
		setting := "Settings.Persistence.Finalizer"
		if i > 0 {
			setting = fmt.Sprintf("Settings.Persistence.LegacyFinalizers[%d]", i-1)
		}
		switch {
		case !validation.IsQualifiedName(name):
			errs = append(errs, invalid(setting, name, `a qualified name such as "example.com/finalizer"`))
		case slices.Contains(kubernetesFinalizers, name):
			errs = append(errs, invalid(setting, name, `another name than those of Kubernetes, such as "example.com/finalizer"`))
		case i > 0 && name == finalizer: // it would be removed and added without end
			errs = append(errs, invalid(setting, name, "another finalizer than Settings.Persistence.Finalizer"))
		}
	}
	return errs
}

// Ratio returns what is wrong with a share.
func Ratio(name string, value float64) []error {
	if !(value >= 0 && value <= 1) { // as it is with NaN
		return []error{invalid("Settings."+name, value, "a number from 0 to 1")}
	}
	return nil
}
