-- KEYS[1]: the lock. ARGV[1]: the owner.
-- Answers 1, 0 where nobody holds the key, -1 where another does.
local holder = redis.call('GETEX', KEYS[1])
if holder == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return holder and -1 or 0
