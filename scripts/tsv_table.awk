# Makes Markdown of a table in tab-separated columns; its first lines may be comments, which become a paragraph.
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
  for (i = 1; i <= NF; ++i) row = row " " $i " |"
  if (!heading) print ""
  print row
  if (!heading) {
    rule = "|"
    for (i = 1; i <= NF; ++i) rule = rule "---|"
    print rule
    heading = 1
  }
}
