// Package contract holds what a lock has to keep: the cases, the [Check] that
// runs any list of cases against a [Harness], and [Test], the same as subtests.
//
// A case is data: an ID, a name in words, why it matters, what it needs. Its
// Run drives clients through package workload, which records everything; what
// the recorded history shows is judged by package checker, whatever the case
// itself found. There are no false positives by design, and a pass means that
// nothing was seen: run it often, with -race and other seeds.
//
//	func TestMain(m *testing.M) { driver.Main(open); os.Exit(m.Run()) }
//
//	func TestContract(t *testing.T) { contract.Test(t, harness{}, nil) }
package contract
