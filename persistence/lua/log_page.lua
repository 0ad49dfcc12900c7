-- Read a part of a log, bounded in entries and bytes, but of at least one entry if there is one.
--
-- KEYS  log (stream)
-- ARGV  1 the id at which to begin   2 how many entries   3 how many bytes   4 '1' to go towards the log's beginning
-- Returns {'ok', {id, fields}, ...}, in reading order | {'corrupt', what}

local left, most = integer(ARGV[2]), integer(ARGV[3])
if not left or not most then return {'corrupt', 'arguments'} end
local back, from, out, bytes = ARGV[4] == '1', ARGV[1], {'ok'}, 0
while left > 0 do
  local count = math.min(left, 8)
  local found = back and redis.call('XREVRANGE', log, from, '-', 'COUNT', count)
    or redis.call('XRANGE', log, from, '+', 'COUNT', count)
  for _, entry in ipairs(found) do
    bytes = bytes + weight(entry[2])
    if bytes > most and #out > 1 then return out end
    out[#out + 1] = entry
  end
  if #found < count then return out end
  left, from = left - count, '(' .. found[count][1]
end
return out
