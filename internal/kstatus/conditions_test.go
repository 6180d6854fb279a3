package kstatus

import (
	"errors"
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	for name, tt := range map[string]struct {
		failure error
		final   bool
		waiting string
		want    string // type, status, reason and message of each
	}{
		"success":     {nil, true, "", "Ready=True Succeeded|Reconciling=False Succeeded|Stalled=False Succeeded"},
		"waiting":     {nil, true, "Pod a: Pending", "Ready=False ChildNotReady Pod a: Pending|Reconciling=True ChildNotReady Pod a: Pending|Stalled=False Succeeded"},
		"retrying":    {errors.New("oh"), false, "Pod a: Pending", "Ready=False Failed oh|Reconciling=True Retrying oh|Stalled=False Retrying"},
		"stalled":     {errors.New("oh"), true, "", "Ready=False Failed oh|Reconciling=False Failed|Stalled=True Failed oh"},
		"long errors": {errors.New(strings.Repeat("x", 2000)), true, "", "Ready=False Failed " + strings.Repeat("x", 1023) + "…|Reconciling=False Failed|Stalled=True Failed " + strings.Repeat("x", 1023) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			for _, c := range Conditions(tt.failure, tt.final, tt.waiting) {
				if err := c.Check(); err != nil {
					t.Error(err)
				}
				all = append(all, strings.TrimSpace(c.Type+"="+c.Status+" "+c.Reason+" "+c.Message))
			}
			if got := strings.Join(all, "|"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
