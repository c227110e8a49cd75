"""Options of products: colours, sizes, packs, flavours, scents and styles.

Each pool is `axis name: values`. Values between two bars form a class. In the shop, values of one class match, and
values of different classes do not. The shop's matcher compares the words of two values and reduces colours to basic
ones. A test checks every pair of values against it.
"""

POOLS = {
    "color": """color: black, jet black | white, off white, pure white
    | blue, navy blue, royal blue, light blue, sky blue,
        dark blue | green, forest green, olive green, army green, sage green, mint green | red, wine red, brick red
        | pink, hot pink, baby pink | grey, light grey, heather grey, steel grey | brown, light brown, dark brown
        | purple, deep purple | yellow, pale yellow | orange, burnt orange | beige, warm beige | burgundy
        | khaki | charcoal | coral | ivory | lavender, pale lavender | mustard | teal | turquoise
        | champagne | camel | rust | gold, rose gold | silver | fuchsia | magenta | peach | dark green, dark purple
        | light pink, light purple | leopard | rainbow | multicolor | sunflower | plum | mauve | cream""",
    "finish color": """color: black, matte black | white, antique white | brown, rustic brown | walnut, light walnut
        | espresso | grey, weathered grey | natural, natural oak | gold, brushed gold | silver | bronze, antique bronze
        | copper | chestnut | slate | stone | taupe | cognac""",
    "light color": """color: warm white, cool white | multicolor | blue | purple | orange | amber glow | red | green""",
    "hair color": """color: jet black, natural black, off black | dark brown, medium brown, chocolate brown | ash blonde
        | honey blonde | copper red | burgundy | platinum | auburn | strawberry | silver grey | caramel highlights""",
    "shade": """color: porcelain | alabaster | beige, classic beige | sand | caramel | honey glow | almond tone | mocha
        | espresso | chestnut | champagne | natural | golden amber | walnut""",
    "lip color": """color: ruby red, cherry red | nude | mauve | plum | coral | pink, rosy pink | merlot | brown
    | fuchsia
        | berry kiss | terracotta dream | peach""",
    "lip style": """style: blackest black | brown velvet | midnight blue | plum party | warm sunset | cool smoke
        | rose garden | desert clay | everyday basics""",
    "flavor tint": """flavor: strawberry | vanilla | mango | coconut | watermelon | honey | cherry | grapefruit
        | peppermint | pomegranate""",
    "letter size": """size: x-small, small | medium | large, x-large, xx-large, 3x-large""",
    "shoe size": """size: 6, 6.5 | 7, 7.5 | 8, 8.5 | 9, 9.5 | 10, 10.5 | 11, 11.5 | 12, 12.5 | 13""",
    "waist size": """size: 28w x 30l | 29w x 31l | 32w x 28l | 33w x 34l | 36w x 29l | 38w x 35l | 40w x 27l
    | 42w x 26l""",
    "collar size": """size: 14.5 | 15, 15.5 | 16, 16.5 | 17, 17.5 | 18, 18.5""",
    "kid size": """size: 2t | 3t | 4t | 5-6 years | 7-8 years | 9-10 years | 11-12 years""",
    "volume": """size: 2.5oz | 3.4oz | 6.7oz | 8oz | 10oz | 12oz | 16.9oz | 33ml | 100ml""",
    "net weight": """size: 5.5oz | 7oz | 9.25oz | 10oz | 12.6oz | 16oz | 1 pound | 3lb | 24oz""",
    "net volume": """size: 8oz | 12oz | 16.9oz | 25oz | 500ml | 1 liter""",
    "pack": """item package quantity: single | twin pack | three pack | four pack | six pack | eight pack
        | ten pack | dozen""",
    "hair length": """size: 10in | 12in | 14in | 16in | 18in | 20in | 22in | 24in | 26in""",
    "pillow size": """size: 12x20 | 16x16 | 18x18 | 20x20 | 22x22 | 24x24 | 26x26""",
    "bed size": """size: twin, twin xl | full | queen | king, california king, split king""",
    "throw size": """size: 40x50 inches | 50x60 inches | 60x80 inches | 70x90 inches | 108x85 inches""",
    "rug size": """size: 2x3 | 17x24 | 2x8 | 4x6 | 5x7 | 8x10 | 9x12 | 6 ft round""",
    "curtain size": """size: 36x72 | 42x63 | 52x84 | 54x95 | 72x108 | 60x78""",
    "cable length": """size: 3.3ft | 6ft | 10ft | 15ft | 25ft | 50ft | 75ft""",
    "furniture size": """size: 31in | 40in | 47in | 55in | 63in | 78in""",
    "stool height": """size: counter height | bar height | 18 inch stool | extra tall""",
    "basket size": """size: small | medium | large, x-large | jumbo""",
    "mirror size": """size: 10in | 12in | 16in | 24x36 | 32in | 48in""",
    "art size": """size: 8x10 | 12x16 | 16x20 | 24x36 | 30x40 | 40x60""",
    "pot size": """size: 5.5in | 8in | 10in | 12in | 14in | 17in""",
    "umbrella size": """size: 7.5 feet | 9 ft | 10 foot | 11 ft | 13 feet""",
    "battery": """size: 5000mah | 10000mah | 26800mah | 37200mah""",
    "power": """size: 10w | 20w | 40w | 60w""",
    "watt": """size: 18w | 20w | 30w | 45w | 65w | 100w""",
    "case size": """size: 38mm | 42mm | 44mm | 46mm""",
    "phone": """size: iphone 11 | iphone xr | iphone 13 mini | galaxy s21 | galaxy a52 | pixel 6 | moto g power
        | oneplus nord""",
    "tablet": """size: ipad mini | ipad air 4 | galaxy tab a7 | fire hd 10 | surface go | matepad""",
    "key switch": """style: linear switch | tactile switch | clicky switch | silent switch""",
    "style": """style: classic | deluxe | starter edition | signature series | value bundle | sport""",
    "art style": """style: misty forest | golden horse | blue waves | red poppies | paris street | zebra portrait
        | moon phases | lemon branch""",
    "scent": """scent: lavender fields | vanilla bean | fresh citrus | rose petal | ocean breeze | sandalwood
    | eucalyptus
        | coconut milk | cherry blossom | white tea | bergamot | honeysuckle | unscented""",
    "flavor": """flavor: spearmint | cinnamon | bubblegum | lemon verbena | wintergreen | anise""",
    "chip flavor": """flavor name: original | barbecue | sour cream & onion | jalapeno | salt & vinegar | cheddar
        | chili lime | rosemary | ranch | garlic parmesan""",
    "sweet flavor": """flavor name: chocolate chip | peanut butter | blueberry | vanilla almond | cinnamon roll
    | maple pecan
        | salted caramel | banana nut | apple pie | cookies & cream | strawberry""",
    "nut flavor": """flavor name: original | wasabi | smokehouse | cinnamon glaze | honey mustard | chili lime
    | cocoa dusted""",
    "choc flavor": """flavor name: hazelnut | orange peel | raspberry | mint crisp | salted almond | espresso bean
    | chili
        | coconut""",
    "fruit flavor": """flavor name: strawberry | lemon lime | black cherry | mango | watermelon | grapefruit | peach
        | pineapple | blue raspberry | green apple | tropical punch""",
    "cookie flavor": """flavor name: shortbread | lemon zest | ginger | chocolate dipped | pistachio | brown sugar
        | cranberry orange""",
    "coffee flavor": """flavor name: breakfast blend | french vanilla | hazelnut | caramel drizzle | mocha
    | house reserve
        | pumpkin spice | toasted coconut""",
    "tea flavor": """flavor name: classic | lemon ginger | honey | peach mango | mint leaf | pomegranate | hibiscus""",
    "sauce flavor": """flavor name: marinara | basil | roasted garlic | arrabbiata | vodka | mushroom | four cheese""",
}
