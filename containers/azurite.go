package containers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// AzuriteOptions say how an Azurite runs, the emulator of Azure's storage
// (https://github.com/Azure/Azurite, MIT). Of its services only the blobs are
// started.
type AzuriteOptions struct {
	Options

	// Program is its entry, a script for node; default: what azurite-blob on
	// PATH stands for.
	Program string
	// Account and Key, in base64, of the one account that it has; default:
	// those that everybody knows, [AzuriteAccount] and [AzuriteKey].
	Account, Key string
	// Persist keeps blobs in its folder; default: in memory. It writes what it
	// knows of them every few seconds and at a Stop, so a Kill may lose the
	// latest.
	Persist bool
}

// The account that every Azurite has where it is given no other
// (https://learn.microsoft.com/azure/storage/common/storage-use-azurite).
const (
	AzuriteAccount = "devstoreaccount1"
	AzuriteKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// azuriteStartLimit: node reads some thousand files first, 2 s on a quiet
// machine.
const azuriteStartLimit = 30 * time.Second

const azuriteInstall = "npm install -g azurite@3"

// Azurite starts an Azurite. An error matches *MissingError if there is none on
// this machine.
func Azurite(ctx context.Context, o *AzuriteOptions) (Server, error) {
	if o == nil {
		o = &AzuriteOptions{}
	}
	node, err := find("", []string{"node"}, nil, "apt-get install nodejs npm && "+azuriteInstall)
	if err != nil {
		return nil, err
	}
	entry, err := azuriteEntry(o.Program)
	if err != nil {
		return nil, err
	}
	p := program{
		name: "azurite", path: node, ready: azuriteReady,
		data: []string{"__azurite_db_blob__.json", "__azurite_db_blob_extent__.json", "__blobstorage__"},
		prepare: func(_ context.Context, s *local, port int) ([]string, error) {
			return append([]string{entry}, o.arguments(s.folder, port)...), nil
		},
	}
	if o.Key != "" {
		account := o.Account
		if account == "" {
			account = AzuriteAccount
		}
		p.env = append(os.Environ(), "AZURITE_ACCOUNTS="+account+":"+o.Key)
	}
	options := o.Options
	if options.StartLimit == 0 {
		options.StartLimit = azuriteStartLimit
	}
	return startLocal(ctx, p, &options)
}

// azuriteEntry is the script that the command on PATH is a link to. It is given
// to node by ourselves: what npm puts on PATH may fork, and a signal to the
// parent would miss the server.
func azuriteEntry(program string) (string, error) {
	if program == "" {
		program = "azurite-blob"
	}
	missing := &MissingError{Programs: []string{program}, Install: azuriteInstall}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", missing
	}
	if path, err = filepath.EvalSymlinks(path); err != nil || filepath.Ext(path) != ".js" {
		return "", missing
	}
	return filepath.Abs(path)
}

// arguments: the version of the service that a client asks for is not checked,
// because clients are newer than any Azurite. Nothing is told to Microsoft, and
// a connection lives longer than its client leaves it idle.
func (o *AzuriteOptions) arguments(folder string, port int) []string {
	args := []string{"--blobHost", "127.0.0.1", "--blobPort", fmt.Sprint(port), "--blobKeepAliveTimeout", "60",
		"--skipApiVersionCheck", "--disableTelemetry", "--silent"}
	if o.Persist {
		return append(args, "--location", folder)
	}
	return append(args, "--inMemoryPersistence")
}

// azuriteReady asks for anything: whoever refuses that serves.
func azuriteReady(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return err
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
