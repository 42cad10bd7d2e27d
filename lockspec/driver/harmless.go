package driver

// harmless marks an error whose outcome word leaves the effect open as one that
// surely had none; [lockspec.NoEffect] finds it.
type harmless struct{ error }

func (e harmless) Unwrap() error  { return e.error }
func (e harmless) NoEffect() bool { return true }
