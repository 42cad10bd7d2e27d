package reproduce

var azureBrokenLease = Story{
	Name:   "azure-broken-lease",
	Title:  "An operator breaks a blob's lease, and another has it at once. The holder hears of it at its next renewal.",
	Source: "Azure, Lease Blob: break",
	Shown:  Play{Target: "up:azurite", Case: "X54", Sign: staleWrite},
	Cure:   "The resource compares tokens and refuses the older one.",
	Cured:  Play{Target: "up:azurite", Case: "X54", Sign: fenced},
}
