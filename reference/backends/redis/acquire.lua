-- KEYS[1]: the lock. KEYS[2]: its counter, which outlives every grant and never
-- expires. ARGV[1]: the owner. ARGV[2]: the lease in milliseconds.
-- Answers the token as text, or nil where another holds the key.
--
-- One script is atomic: no grant has an older token than the one before, and no
-- token is given twice. The server's clock stands in for a counter that was
-- lost; microseconds fit the 53 bits of a Lua number until the year 2255.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  redis.call('GETEX', KEYS[1]) -- refused by a replica
  return false
end
local last = redis.call('GET', KEYS[2])
if holder and last then
  -- This owner was granted the key before and its reply was lost.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return last
end
local now = redis.call('TIME')
local token = math.max((tonumber(last or '0') or 0) + 1, now[1] * 1000000 + now[2])
if token >= 9007199254740992 then
  return redis.error_reply('TOKENS the counter of the key is above 2^53 and cannot rise')
end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[2], text)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return text
