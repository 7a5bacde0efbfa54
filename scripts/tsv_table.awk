# Makes Markdown of a table in tab-separated columns; its first lines may be comments, which become a paragraph. A long
# text that the row above has, too, becomes "as above".
BEGIN { FS = "\t" }
/^# / {
  sub(/^# /, "")
  print
  next
}
{
  gsub(/&/, "\\&amp;")
  gsub(/</, "\\&lt;")
  gsub(/\|/, "\\|")
  gsub(/`/, "'")
  gsub(/\*/, "\\*")
  row = "|"
  for (i = 1; i <= NF; ++i) {
    row = row " " (length($i) > 60 && $i == above[i] ? "as above" : $i) " |"
    above[i] = $i
  }
  if (!heading) print ""
  print row
  if (!heading) {
    rule = "|"
    for (i = 1; i <= NF; ++i) rule = rule "---|"
    print rule
    heading = 1
  }
}
