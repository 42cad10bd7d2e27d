-- The same without a counter, for servers whose SET does not take NX and GET
-- together (Redis before 7.0). Answers 1, or nil where another holds the key.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  redis.call('GETEX', KEYS[1]) -- refused by a replica
  return false
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
