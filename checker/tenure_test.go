package checker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// spans writes spans in milliseconds.
func spans(ss []Span) string {
	var out []string
	for _, s := range ss {
		out = append(out, fmt.Sprintf("%s-%s", msOf(s.From), msOf(s.To)))
	}
	return strings.Join(out, " ")
}

func msOf(m Moment) string {
	if m == never {
		return "∞"
	}
	return fmt.Sprint(float64(m.Time) / 1e6)
}

// TestIntervals lays out the first tenure of each history.
func TestIntervals(t *testing.T) {
	lease := head(lockspec.Leased)
	auto := head(lockspec.Leased, "auto-renew=proven")
	rows := []struct {
		name, text                string
		head                      *history.Header
		paper, entitled, believed string
	}{
		{"a lease counts from the send of the request, the promise from its reply", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100`, lease, "5-100", "5-100", "5-100"},
		{"a proven send counts where there is one", `
			0 p1 acquire wait=1000
			60 p1 acquire ok t1 lease=100 sent=50`, lease, "60-150", "60-150", "60-150"},
		{"a wait whose winning send nobody saw entitles to nothing after its lease", `
			0 p1 acquire wait=1000
			160 p1 acquire ok t1 lease=100`, lease, "", "", "160-260"},
		{"what is left of a lease counts, not the lease", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100 left=40`, lease, "5-40", "5-40", "5-40"},
		{"the asked lease never entitles", `
			0 p1 acquire ask=500
			5 p1 acquire ok t1 lease=100`, lease, "5-100", "5-100", "5-100"},
		{"a shared session lease starts with a seen renewal", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			20 p1 renewed t1 lease=100 sent=15`, head(lockspec.Leased, "session-lease=proven", "auto-renew=proven"), "20-115", "20-115", "5-∞"},
		{"a renewal lengthens from its ok on", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			80 p1 renew t1 ask=100
			84 p1 renew t1 ok lease=100`, lease, "5-180", "5-180", "5-180"},
		{"a renewal may shorten, from its invocation on", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			20 p1 renew t1 ask=10
			60 p1 renew t1 ok lease=10`, lease, "5-30", "5-30", "5-30"},
		{"a renewal of unknown outcome never lengthens", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			50 p1 renew t1 ask=100
			60 p1 renew t1 unavailable`, lease, "5-100", "5-100", "5-100"},
		{"and may shorten", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			50 p1 renew t1 ask=20
			60 p1 renew t1 unavailable`, lease, "5-70", "5-70", "5-70"},
		{"a refused renewal renews nothing and ends the entitlement at its invocation", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			50 p1 renew t1 ask=100
			60 p1 renew t1 not-held`, lease, "5-100", "5-50", "5-50"},
		{"a renewal that re-creates a vanished lock is a piece of its own", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			150 p1 renew t1 ask=100
			155 p1 renew t1 ok lease=100`, lease, "5-100 155-250", "5-100 155-250", "5-250"},
		{"a self-renewal without a proven send entitles to nothing", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			70 p1 renewed t1 lease=100`, auto, "5-100", "5-100", "5-∞"},
		{"a self-renewal that overtakes an open renewal", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			50 p1 renew t1 ask=100
			60 p1 renewed t1 lease=100 sent=55
			70 p1 renew t1 ok lease=100`, auto, "5-150", "5-150", "5-∞"},
		{"a release ends entitlement and belief at its invocation, whatever it answers", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			50 p1 release t1
			60 p1 release t1 unavailable`, lease, "5-100", "5-50", "5-50"},
		{"a write that is open then keeps the belief", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			40 p1 write t1
			50 p1 release t1
			70 p1 write t1 ok`, lease, "5-100", "5-50", "5-70"},
		{"a loss with a proven stamp", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			90 p1 lost t1 driver=60`, lease, "5-100", "5-60", "5-60"},
		{"a loss without: as early as the last ok was asked for", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			40 p1 held t1
			45 p1 held t1 ok
			50 p1 held t1
			90 p1 lost t1`, lease, "5-100", "5-40", "5-40"},
		{"doubt ends belief, not the promise", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			60 p1 doubt t1`, lease, "5-100", "5-100", "5-60"},
		{"a kill", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			30 fault f1 kill n1 start
			31 fault f1 kill n1 end`, lease, "5-100", "5-30", "5-30"},
		{"a kill of the node before this one was asked for is another life's", `
			0 fault f1 kill n1 start
			1 fault f1 kill n1 end
			5 p1 acquire
			6 p1 acquire ok t1 lease=100`, lease, "6-105", "6-105", "6-105"},
		{"an exit came some time after the last word", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			40 p1 exit`, lease, "5-100", "", "5-5"},
		{"a shutdown ends the promise", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			30 p1 shutdown`, lease, "5-100", "5-30", "5-30"},
		{"a grant that was under way at a shutdown promises nothing", `
			0 p1 acquire
			3 p1 shutdown
			5 p1 acquire ok t1 lease=100`, lease, "5-100", "", "5-5"},
		{"an eviction of the key", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			30 fault f1 evict key:k start
			31 fault f1 evict key:k end`, lease, "5-100", "5-30", "5-100"},
		{"an eviction that had healed before the grant's reply may have struck the grant", `
			0 p1 acquire
			1 fault f1 evict key:k start
			2 fault f1 evict key:k end
			5 p1 acquire ok t1 lease=100`, lease, "5-100", "", "5-100"},
		{"an eviction before the grant was asked for struck another", `
			0 fault f1 evict key:k start
			1 fault f1 evict key:k end
			2 p1 acquire
			5 p1 acquire ok t1 lease=100`, lease, "5-102", "5-102", "5-102"},
		{"a partition does not touch a lease", `
			0 p1 acquire
			5 p1 acquire ok t1 lease=100
			30 fault f1 partition link:n1 start`, lease, "5-100", "5-100", "5-100"},
		{"a partition may end a session", `
			0 p1 acquire
			5 p1 acquire ok t1
			30 fault f1 partition link:n1 start`, head(lockspec.Session), "5-∞", "5-30", "5-∞"},
		{"an acquisition that used up its lease is never believed", `
			0 p1 acquire
			100 p1 acquire ok t1 lease=100`, lease, "", "", "100-100"},
		{"a late grant is a tenure that nobody believes in", `
			0 p1 acquire
			5 p1 acquire unavailable
			20 p1 late ok t1 of=0 lease=100
			22 p1 release t1
			23 p1 release t1 ok`, lease, "20-100", "20-22", "20-20"},
		{"a section holds from its entry; its end is no earlier than the node's last answer", `
			0 p1 section
			10 p1 entered t1 lease=100
			20 p9 acquire key=other node=n1
			30 p9 acquire busy key=other node=n1
			50 p1 left t1
			55 p1 section ok`, lease, "10-100", "10-20", "10-20"},
		{"nor sooner than the answer that its driver had written before; what is only recorded before may have come after", `
			0 p1 section
			10 p1 entered t1 lease=100
			20 p9 acquire key=other node=n1
			30 p9 acquire busy key=other node=n1
			50 p1 left t1 sent=12
			55 p1 section ok`, lease, "10-100", "10-12", "10-12"},
		{"of a driver that never tells of the end nothing is known but the entry", `
			0 p1 section
			10 p1 entered t1 lease=100
			20 p9 acquire key=other node=n1
			30 p9 acquire busy key=other node=n1
			55 p1 section t1 ok`, lease, "10-100", "", "10-10"},
		{"a section with proven stamps", `
			0 p1 section
			10 p1 entered t1 lease=100 driver=8
			50 p1 left t1 driver=45
			55 p1 section ok`, lease, "8-100", "8-45", "8-45"},
		{"a section that is still open holds", `
			0 p1 section
			10 p1 entered t1 lease=100`, auto, "10-100", "10-100", "10-∞"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := collect(row.head, script(t, row.text))
			if len(r.tenures) == 0 {
				t.Fatal("no tenure")
			}
			i := r.tenures[0]
			for _, c := range []struct{ what, got, want string }{
				{"paper", spans(i.Paper), row.paper},
				{"entitled", spans(i.Entitled), row.entitled},
				{"believed", spans([]Span{i.Believed}), row.believed},
			} {
				if c.got != c.want {
					t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
				}
			}
		})
	}
}

// TestAttempts: what is known of acquisitions that gave no tenure.
func TestAttempts(t *testing.T) {
	rows := []struct{ name, text, want string }{
		{"busy is refused", "0 p1 acquire\n1 p1 acquire busy", "busy"},
		{"unavailable may have an effect", "0 p1 acquire\n1 p1 acquire unavailable", "unavailable?"},
		{"unless the driver is sure", "0 p1 acquire\n1 p1 acquire unavailable none", "unavailable"},
		{"an open one is unknown", "0 p1 acquire", "unavailable?"},
		{"a late refusal makes it known", "0 p1 acquire\n1 p1 acquire unavailable\n5 p1 late busy of=1", "busy"},
		{"a late grant makes it a tenure", "0 p1 acquire\n1 p1 acquire unavailable\n5 p1 late ok t1 of=0", ""},
		{"a section that never began", "0 p1 section\n1 p1 section busy", "busy"},
		{"a section that is open", "0 p1 section", "unavailable?"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := ""
			for _, a := range collect(head(lockspec.Leased), script(t, row.text)).attempts {
				got += string(a.outcome)
				if a.unknown {
					got += "?"
				}
			}
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
