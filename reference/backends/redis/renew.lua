-- KEYS[1]: the lock. ARGV[1]: the owner. ARGV[2]: the lease in milliseconds.
-- Answers 1, 0 where nobody holds the key, -1 where another does.
-- PEXPIRE and no SET: a server that is out of memory refuses SET only.
local holder = redis.call('GETEX', KEYS[1])
if holder == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return holder and -1 or 0
