// Package settingscheck validates the settings of an operator before they affect any object.
package settingscheck

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kopf-go/kopf/internal/validation"
)

// kubernetesFinalizers are reserved by Kubernetes: an operator that uses or removes them breaks the deletion of objects.
var kubernetesFinalizers = []string{"orphan", "foregroundDeletion", "kubernetes"}

// invalid returns an error in the common form of errors about settings.
func invalid(setting string, value any, want string, args ...any) error {
	if text, ok := value.(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	return fmt.Errorf("invalid %s %v: want %s", setting, value, fmt.Sprintf(want, args...))
}

// Numbers returns errors for negative numbers and durations in the groups of settings, except those named in signed.
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
			negative, want := false, "zero or more"
			value := groups.Field(i).Field(j).Interface()
			switch v := value.(type) {
			case int:
				negative = v < 0
			case time.Duration:
				negative = v < 0
			case []time.Duration:
				negative, want = slices.ContainsFunc(v, func(d time.Duration) bool { return d < 0 }), "durations of zero or more"
			}
			if negative {
				errs = append(errs, invalid("Settings."+name, value, "%s", want))
			}
		}
	}
	return errs
}

// finalizers validates the finalizer of an operator, and the legacy finalizers that it removes.
func finalizers(finalizer string, legacy []string) (errs []error) {
	for i, name := range append([]string{finalizer}, legacy...) {
		setting := "Settings.Persistence.Finalizer"
		if i > 0 {
			setting = fmt.Sprintf("Settings.Persistence.LegacyFinalizers[%d]", i-1)
		}
		switch {
		case i == 0 && name == "": // probably of a literal Settings{}
			errs = append(errs, invalid(setting, name,
				`a qualified name such as "example.com/finalizer", or the default of NewSettings()`))
		case !validation.IsQualifiedName(name):
			errs = append(errs, invalid(setting, name, `a qualified name such as "example.com/finalizer"`))
		case slices.Contains(kubernetesFinalizers, name):
			errs = append(errs, invalid(setting, name, `another name than those of Kubernetes, such as "example.com/finalizer"`))
		case i > 0 && name == finalizer: // kopf would remove and add it in a loop
			errs = append(errs, invalid(setting, name, "another finalizer than Settings.Persistence.Finalizer"))
		}
	}
	return errs
}

// Posting validates the names in events, which API servers check.
func Posting(component, instance, namePrefix string) (errs []error) {
	const group, maxInstance, maxPrefix = "Settings.Posting.", 128, 240 // with room for the rest of the name
	if !validation.IsQualifiedName(component) {
		errs = append(errs, invalid(group+"ReportingComponent", component, `a qualified name such as "example.com/operator"`))
	}
	if n := len(instance); n == 0 || n > maxInstance {
		errs = append(errs, invalid(group+"ReportingInstance", instance, "1 to %d bytes", maxInstance))
	}
	start, dash := strings.CutSuffix(namePrefix, "-")
	if dash && start != "" {
		start += "a"
	}
	if namePrefix != "" && (!validation.IsDNSSubdomain(start) || len(start) > maxPrefix) {
		errs = append(errs, invalid(group+"EventNamePrefix", namePrefix, `the beginning of a name in lower case, such as "operator-"`))
	}
	return errs
}

// Ratio returns an error for a ratio outside of 0 to 1.
func Ratio(name string, value float64) []error {
	if !(value >= 0 && value <= 1) { // also true for NaN
		return []error{invalid("Settings."+name, value, "a number from 0 to 1")}
	}
	return nil
}
