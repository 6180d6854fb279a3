package settingscheck

import (
	"fmt"
	"time"

	"github.com/kopf-go/kopf/internal/leaderelection"
	"github.com/kopf-go/kopf/internal/validation"
)

// LeaderElection are the settings of the leader election. See kopf.LeaderElectionSettings for the fields, which are the same.
type LeaderElection struct {
	Name          string
	Namespace     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// Errors returns what is wrong with the settings, also without an election: what was meant for one must not be in vain.
func (s LeaderElection) Errors() (errs []error) {
	const group = "Settings.LeaderElection"
	switch {
	case s.Name == "" && s.Namespace != "":
		errs = append(errs, invalid(group+".Name", s.Name, "the name of the Lease, such as by --leader-elect NAME, because there is a namespace for it: %q", s.Namespace))
	case s.Name != "" && !validation.IsObjectName(s.Name):
		errs = append(errs, invalid(group+".Name", s.Name, "the name of an object: %s", validation.ObjectName))
	}
	if s.Namespace != "" && !validation.IsNamespaceName(s.Namespace) {
		errs = append(errs, invalid(group+".Namespace", s.Namespace, "the name of a namespace: %s", validation.NamespaceName))
	}
	times := leaderelection.Config{LeaseDuration: s.LeaseDuration, RenewDeadline: s.RenewDeadline, RetryPeriod: s.RetryPeriod}
	if err := times.Check(); err != nil && s != (LeaderElection{}) { // which are of settings that were not made by NewSettings
		errs = append(errs, fmt.Errorf("invalid "+group+": %w", err))
	}
	return errs
}

// Warnings returns what is probably not meant by the settings.
func (s LeaderElection) Warnings(defaults LeaderElection) []string {
	if s.Name != "" || s == (LeaderElection{}) || s == defaults {
		return nil
	}
	return []string{"There is no leader election, although Settings.LeaderElection has times for one: without a Name, each replica works"}
}
