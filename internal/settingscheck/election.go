package settingscheck

import (
	"fmt"
	"time"

	"github.com/kopf-go/kopf/internal/leaderelection"
	"github.com/kopf-go/kopf/internal/validation"
)

// LeaderElection has the settings of the leader election. The fields are those of kopf.LeaderElectionSettings.
type LeaderElection struct {
	Name          string
	Namespace     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// Errors validates the settings. It also does so without an election, because settings without effect are an error.
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
	if err := times.Check(); err != nil && s != (LeaderElection{}) { // settings that NewSettings did not make
		errs = append(errs, fmt.Errorf("invalid "+group+": %w", err))
	}
	return errs
}

// Warnings returns warnings about settings that are probably mistakes.
func (s LeaderElection) Warnings(defaults LeaderElection) []string {
	if s.Name != "" || s == (LeaderElection{}) || s == defaults {
		return nil
	}
	return []string{"There is no leader election, although Settings.LeaderElection has times for one: without a Name, each replica works"}
}
