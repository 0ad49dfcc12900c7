-- Count an API key's use, unless one of its quotas would be exceeded.
--
-- KEYS  used (hash: quota -> how much, '@' -> the end in ms, '@<request>' -> 1 for each counted request; it expires)
-- ARGV  1 the request, or ''   2 for how many ms it counts   then (quota, how much, how much may be used or '') in threes
-- A counted request is not counted again; of the quotas that it does not count itself (tokens, cost), something must still be left.
-- Returns {'ok'} | {'exceeded', quota, used, until} | {'corrupt', what}

local request, window_ms = ARGV[1], integer(ARGV[2])
if not window_ms or (#ARGV - 2) % 3 ~= 0 then return {'corrupt', 'arguments'} end
local now = clock()
local till = integer(redis.call('HGET', used, '@') or '0')
if not till then return {'corrupt', 'what a key has used: its end'} end
local fresh = till <= now
if fresh then till = now + window_ms end
local again = not fresh and request ~= '' and redis.call('HEXISTS', used, '@' .. request) == 1
local sums = {'@', string.format('%d', till)}
if request ~= '' then
  sums[#sums + 1] = '@' .. request
  sums[#sums + 1] = '1'
end
local counted = false
for i = 3, #ARGV, 3 do
  local by = integer(ARGV[i + 1])
  local before = fresh and 0 or integer(redis.call('HGET', used, ARGV[i]) or '0')
  if not by or not before or (ARGV[i + 2] ~= '' and not integer(ARGV[i + 2])) then return {'corrupt', 'what a key has used'} end
  if ARGV[i + 2] ~= '' and not (again and by > 0) and before + math.max(by, 1) > integer(ARGV[i + 2]) then
    return {'exceeded', ARGV[i], string.format('%.0f', before), string.format('%d', till)}
  end
  counted = counted or by > 0
  sums[#sums + 1] = ARGV[i]
  sums[#sums + 1] = string.format('%.0f', before + by)
end
if again or not counted then return {'ok'} end
if fresh then redis.call('DEL', used) end
for i = 1, #sums, 2 do redis.call('HSET', used, sums[i], sums[i + 1]) end
redis.call('PEXPIRE', used, string.format('%d', till - now))
return {'ok'}
