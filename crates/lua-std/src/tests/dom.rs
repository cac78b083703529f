//! `net.http.dom`: pages as they are, and values from them.

use crate::testing::output;

fn said(program: &str) -> Vec<String> {
    let head = r##"
        local dom = require "silly.net.http.dom"
        local function texts(nodes)
            local list = {}
            for at, node in ipairs(nodes) do list[at] = node:text() end
            return table.concat(list, "|")
        end
    "##;
    output(&format!("{head}{program}\nrequire 'silly'.exit()"))
}

#[test]
fn elements_are_selected() {
    let program = r##"
        local page = assert(dom.parse [[
            <!DOCTYPE html>
            <!-- a <b>comment</b> -->
            <html lang=en><head><title>A &lt;b&gt; page</title>
            <script>if (a < b) { document.write("<p class='no'>") }</script></head>
            <body class="main  wide">
              <ul id='list'>
                <li class="item first">One &amp; only
                <li class="item">Two<br>lines
                <li class=item data-x>Three
              </ul>
              <DIV><p>A paragraph <b>in bold</b> text<p>Another<img src=a.png><input disabled></DIV>
            </body></html>
        ]])
        say(page.name, page.attr.lang, page:select("body")[1].class[2])
        say(texts(page:select "title"), texts(page:select ".item"))
        say(texts(page:select "li.first"), texts(page:select "#list .item.first"))
        say(texts(page:select "div p"), #page:select "p.no", #page:select "br")
        say(page:select("script")[1]:text())
        say(page:select("img")[1].attr.src, page:select("input")[1].attr.disabled)
        say(#page:select "*", page:select("li")[3].attr["data-x"], #page:select "")
        say(texts(page:selectn("p", 1)), #page:selectn("p", 2), #page:selectn("table", 2))
        say(page:select("ul")[1]:match { name = "ul", id = "list" }, page:match { class = "x" })
    "##;
    let expected = [
        "html en wide",
        "A <b> page One & only|Twolines|Three",
        "One & only One & only",
        "A paragraphin boldtext|Another 0 1",
        r##"if (a < b) { document.write("<p class='no'>") }"##,
        "a.png true",
        "16 true 0",
        "A paragraphin boldtext|Another 1 0",
        "true false",
    ];
    assert_eq!(said(program), expected);
}

#[test]
fn any_text_is_read_in_time_that_is_linear() {
    let program = r##"
        for _, text in ipairs { "", "text", "<", "<!--", "</p>", "a < b", "<>" } do
            say(dom.parse(text))
        end
        for _, text in ipairs { "<a", "<a href", "<a href=", "<a href='x", "<a><b></a>c",
            "<script>x", "</b><p>x</i></p></p>y", "<a/><b>", "<td>1<td>2", "<a =x b = c>" } do
            local node = assert(dom.parse(text))
            say(text, node.name, node:text(), node.attr.href)
        end
        say((select(2, pcall(dom.parse))))
        -- Each would take minutes if its time were quadratic.
        local times = 1 << 15
        for _, part in ipairs { "<a> ", "<a ", "</a>", "<!--", "<p x=\"", "    ", "&lt;", "<li>x",
            "<script" } do
            local node = dom.parse("<i>" .. part:rep(times))
            say(part, node ~= nil and #node:text() <= 4 * times)
        end
    "##;
    let said = said(program);
    assert_eq!(said[..7], ["nil there is no element"; 7]);
    let expected = [
        "<a a  nil",
        "<a href a  true",
        "<a href= a  ",
        "<a href='x a  x",
        "<a><b></a>c a  nil",
        "<script>x script x nil",
        "</b><p>x</i></p></p>y p x nil",
        "<a/><b> a  nil",
        "<td>1<td>2 td 1 nil",
        "<a =x b = c> a  nil",
    ];
    assert_eq!(said[7..17], expected);
    assert!(said[17].contains("string expected, got nil"), "{said:?}");
    assert!(said[18..].iter().all(|line| line.ends_with(" true")), "{said:?}");
    assert_eq!(said.len(), 27);
}
