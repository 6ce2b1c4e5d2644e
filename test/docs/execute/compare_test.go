package main

import "testing"

func TestWhatMayDiffer(t *testing.T) {
	for name, pair := range map[string][2]string{
		"UUIDs":       {`{"id":"01a1fdcf-5fed-71b2-b722-684f3f08e75e"}`, `{"id":"11a1fdcf-5fed-71b2-b722-684f3f08e75f"}`},
		"traces":      {"trace 2057d1905555159851ad17d795cfa26d", "trace 3057d1905555159851ad17d795cfa26d"},
		"spans":       {"span 2057d19055551598", "span 3057d19055551598"},
		"times":       {`"2026-11-21T11:13:08.588665Z"`, `"2027-01-02T01:02:03Z"`},
		"local times": {"2026-11-21 11:13:08.588+01", "2027-01-02 01:02:03+02:00"},
		"clocks":      {"at 11:13:08.588.", "at 01:02:03."},
		"durations":   {"in 1m2.5s", "in 300ms"},
		"numbers":     {"0.0 ms late", "-56.9 ms late"},
		"columns":     {"created    2 orders  ", "created  2 orders"},
	} {
		if diff := compare(pair[:1], pair[1:]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatMayNotDiffer(t *testing.T) {
	for name, pair := range map[string][2]string{
		"numbers":  {"2 orders", "3 orders"},
		"statuses": {`"status":"pending"`, `"status":"failed"`},
		"amounts":  {`"amount":2999`, `"amount":3000`},
		"nothing":  {"created 2026-11-21T11:13:08Z", "created"},
		"ports":    {"localhost:4000", "localhost:4100"},
	} {
		if compare(pair[:1], pair[1:]) == "" {
			t.Errorf("%s: %q matches %q", name, pair[1], pair[0])
		}
	}
}

func TestEllipses(t *testing.T) {
	for name, test := range map[string]struct {
		want, got []string
		same      bool
	}{
		"no line":            {[]string{"...", "1"}, []string{"1"}, true},
		"many":               {[]string{"1", "...", "4"}, []string{"1", "2", "3", "4"}, true},
		"the line again":     {[]string{"...", "1"}, []string{"1", "2", "1"}, true},
		"two":                {[]string{"...", "2", "...", "4"}, []string{"1", "2", "3", "4"}, true},
		"everything":         {[]string{"..."}, nil, true},
		"blank lines":        {[]string{"1", "", "2", ""}, []string{"", "1", "2"}, true},
		"the wrong order":    {[]string{"...", "2", "...", "1"}, []string{"1", "2"}, false},
		"more after the end": {[]string{"...", "2"}, []string{"1", "2", "3"}, false},
		"the end of a line":  {[]string{"a b..."}, []string{"a b c"}, true},
		"another beginning":  {[]string{"a c..."}, []string{"a b c"}, false},
		"inside a line":      {[]string{"a ... c"}, []string{"a b c"}, false},
	} {
		if diff := compare(test.want, test.got); (diff == "") != test.same {
			t.Errorf("%s: %q", name, diff)
		}
	}
}
