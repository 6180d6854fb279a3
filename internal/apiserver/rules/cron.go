package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronField is one of the five fields of a schedule.
type cronField struct {
	least, most int
	names       string // the names of the minimum, and of the following numbers
}

var cronFields = []cronField{{0, 59, ""}, {0, 23, ""}, {1, 31, ""}, {1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"}, {0, 6, "sun mon tue wed thu fri sat"}}

// parseSchedule parses the schedule of a cron job. Its errors have the messages of the library that Kubernetes uses.
func parseSchedule(text string) error {
	if prefix, rest, ok := strings.Cut(text, "="); ok && (prefix == "TZ" || prefix == "CRON_TZ") {
		zone, schedule, _ := strings.Cut(rest, " ")
		if _, err := time.LoadLocation(zone); err != nil && hasTimeZones() {
			return fmt.Errorf("provided bad location %s: %w", zone, err)
		}
		text = strings.TrimSpace(schedule)
	}
	if strings.HasPrefix(text, "@") {
		return parseDescriptor(text)
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("expected exactly %d fields, found %d: %s", len(cronFields), len(fields), fields)
	}
	for i, f := range fields {
		for _, part := range strings.Split(f, ",") {
			if part == "" {
				continue
			}
			if err := cronFields[i].parse(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseDescriptor(text string) error {
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		if _, err := time.ParseDuration(every); err != nil {
			return fmt.Errorf("failed to parse duration %s: %w", text, err)
		}
		return nil
	}
	if !slices.Contains([]string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}, text) {
		return fmt.Errorf("unrecognized descriptor: %s", text)
	}
	return nil
}

// parse parses one part of a field, such as 1-5/2.
func (f *cronField) parse(text string) error {
	steps := strings.Split(text, "/")
	limits := strings.Split(steps[0], "-")
	first, last, err := f.least, f.most, error(nil)
	if limits[0] != "*" && limits[0] != "?" {
		if first, err = f.number(limits[0]); err != nil {
			return err
		}
		switch last = first; len(limits) {
		case 1:
		case 2:
			if last, err = f.number(limits[1]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("too many hyphens: %s", text)
		}
	}
	step := 1
	switch len(steps) {
	case 1:
	case 2:
		if step, err = cronNumber(steps[1]); err != nil {
			return err
		}
		if len(limits) == 1 {
			last = f.most
		}
	default:
		return fmt.Errorf("too many slashes: %s", text)
	}
	switch {
	case first < f.least:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", first, f.least, text)
	case last > f.most:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", last, f.most, text)
	case first > last:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", first, last, text)
	case step == 0:
		return fmt.Errorf("step of range should be a positive number: %s", text)
	}
	return nil
}

func (f *cronField) number(text string) (int, error) {
	if i := slices.Index(strings.Fields(f.names), strings.ToLower(text)); i >= 0 {
		return f.least + i, nil
	}
	return cronNumber(text)
}

func cronNumber(text string) (int, error) {
	number, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	case number < 0:
		return 0, fmt.Errorf("negative number (%d) not allowed: %s", number, text)
	}
	return number, nil
}
