package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// admin is a connection of the harness's own, which is made anew when it broke.
type admin struct {
	url func() string

	mu   sync.Mutex
	conn *pgconn.PgConn
}

// adminLimit bounds one call by the harness itself.
const adminLimit = 5 * time.Second

// query asks once more where the connection turns out to have broken since it
// was used: servers are restarted, and what a harness asks does no harm twice.
func (a *admin) query(ctx context.Context, sql string) ([][]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	used := a.conn != nil
	rows, err := a.ask(ctx, sql)
	if err != nil && used && a.conn != nil && a.conn.IsClosed() && ctx.Err() == nil {
		return a.ask(ctx, sql)
	}
	return rows, err
}

func (a *admin) ask(ctx context.Context, sql string) (rows [][]string, err error) {
	if a.conn == nil || a.conn.IsClosed() {
		if a.conn, err = pgconn.Connect(ctx, a.url()); err != nil {
			return nil, err
		}
	}
	results, err := a.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		for _, values := range r.Rows {
			var row []string
			for _, v := range values {
				row = append(row, string(v))
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (a *admin) exec(ctx context.Context, sql string) error {
	_, err := a.query(ctx, sql)
	return err
}

func (a *admin) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		_ = a.conn.Close(context.Background())
	}
}
