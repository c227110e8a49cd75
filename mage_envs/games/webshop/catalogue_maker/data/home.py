"""Words of the department garden (home and kitchen): types, attributes, brands and texts of sellers.

`tables.py` documents the formats.
"""

NAME = "garden"
ROOT = "Home & Kitchen"

TYPES = """
throw pillow cover; one; Bedding & Decor > Decor > Pillows > Covers; color, pillow size, pack; 14
    home fabric, home care, home print, pillow close, room, edge
bed sheet set; one; Bedding & Decor > Bedding > Sheets > Sets; color, bed size; 39
    bed cloth, home care, bed feel, deep fit, room, home print
duvet cover; one; Bedding & Decor > Bedding > Duvets > Covers; color, bed size; 46
    bed cloth, home care, bed feel, pillow close, home print, edge
throw blanket; one; Bedding & Decor > Bedding > Blankets > Throws; color, throw size; 29
    blanket, home care, home print, edge, season, room
area rug; one; Bedding & Decor > Rugs > Area > Indoor; color, rug size; 92
    rug pile, rug back, home care, home print, room, traffic
bath mat; one; Bath > Rugs > Mats > Soft; color, rug size; 21
    rug pile, rug back, home care, home print, absorb, edge
bath towel set; one; Bath > Towels > Sets > Bath; color, pack; 33
    bed cloth, home care, absorb, towel, edge, room
*shower curtain; one; Bath > Shower > Curtains > Fabric; color, curtain size; 21
    curtain, home care, home print, shower top, bath dry, room
blackout curtains; plural; Bedding & Decor > Windows > Curtains > Panels; color, curtain size; 37
    curtain top, home care, light block, home print, room, home fabric
table lamp; one; Lighting > Lamps > Table > Bedside; finish color, style; 43
    lamp base, lamp bulb, lamp switch, lamp port, room, look, assembly
floor lamp; one; Lighting > Lamps > Floor > Standing; finish color, style; 78
    lamp base, lamp bulb, lamp switch, lamp move, room, look, assembly
string lights; plural; Lighting > Outdoor > String > Decorative; light color, cable length; 24
    lamp power, light mode, outdoor, light shape, room, bulb break
coffee table; one; Furniture > Living Room > Tables > Coffee; finish color, furniture size; 139
    wood, assembly, look, table store, leg style, surface, room
accent chair; one; Furniture > Living Room > Chairs > Accent; color, style; 184
    seat cover, assembly, look, leg style, seat fill, chair feature, room
sofa bed; one; Furniture > Living Room > Sofas > Sleepers; color, style; 428
    seat cover, assembly, look, leg style, seat fill, sofa feature, frame
*bar stools; plural; Furniture > Kitchen > Seating > Stools; color, stool height, pack; 122
    seat cover, assembly, look, leg style, stool, frame, surface
bookshelf; one; Furniture > Office > Storage > Shelves; finish color, style; 96
    wood, assembly, look, shelf, frame, wall, room
office desk; one; Furniture > Office > Desks > Computer; finish color, furniture size; 158
    wood, assembly, look, desk, frame, surface, leg style
nightstand; one; Furniture > Bedroom > Tables > Bedside; finish color, pack; 87
    wood, assembly, look, table store, leg style, lamp port, handle style
storage basket; one; Storage > Baskets > Bins > Woven; color, basket size, pack; 23
    basket, basket grip, fold, lid, room, look
*wall mirror; one; Bedding & Decor > Decor > Mirrors > Wall; finish color, mirror size; 71
    mirror edge, wall, look, mirror light, frame, room
canvas wall art; one; Bedding & Decor > Decor > Wall Art > Prints; art style, art size; 48
    art frame, art theme, wall, art ink, look, room
wall clock; one; Bedding & Decor > Decor > Clocks > Wall; finish color, mirror size; 31
    clock noise, clock face, lamp power, look, frame, room
garden planter; one; Garden > Pots > Planters > Outdoor; color, pot size, pack; 28
    pot, drain, outdoor, look, pot feature, lid
patio umbrella; one; Garden > Shade > Umbrellas > Market; color, umbrella size; 74
    umbrella, outdoor, umbrella pole, umbrella crank, light mode, vent
"""

GROUPS = """
home fabric: m cotton linen = m a linen and cotton mix | m soft velvet = m velvet
    | m faux linen = m fabric that looks like linen
    | m woven jute = m jute
home care: a machine washable = t can go in the washer; t can be machine washed | a spot clean = t only needs wiping
    | a hand washable = t can be washed by hand
home print: w geometric pattern = w shapes on it | w striped pattern = a striped; w stripes
    | w plain color = a one colored
    | w floral pattern = w flowers all over
pillow close: w hidden zipper = w a zip you cannot see | w envelope back = w a flap at the back
    | w corner ties = w strings in the corners
edge: w tassel edge = w tassels | w pom poms = w little balls along the edge | w hemmed edge = w a clean seam
    | w fringe trim = w fringes
room: f living room = f the lounge | f guest room = f when visitors stay | f kids room = f a nursery
    | f dining room = f where we eat
bed cloth: m egyptian cotton = m cotton from egypt | m brushed microfiber = m microfiber | m bamboo rayon = m bamboo
    | m turkish cotton = m cotton from turkey
bed feel: a cooling touch = t stays cool at night | a silky soft = t feels like silk
    | a crisp percale = a crisp like in a hotel
deep fit: w deep pockets = t fits thick mattresses | w elastic corners = t stays on the corners
    | w corner straps = w straps beneath
blanket: m chunky knit = m thick yarn | m sherpa fleece = m sherpa | m faux rabbit = w fake rabbit fur
    | m waffle weave = w little squares
season: f cold winters = t keeps me warm in winter | f all year = f any season | f summer nights = t is not too warm
rug pile: w high pile = a shaggy; a fluffy | w low pile = a flat | w chenille loops = m chenille
rug back: w rubber backing = w rubber below | w felt backing = w felt below | w latex dots = w dots that stop sliding
traffic: f high traffic = t bears many feet | f pet owners = t bears dogs and cats
    | w stain resistant = t does not stain
absorb: a super absorbent = t soaks up lots of water | a quick dry = t dries quickly | a lint free = t leaves no fluff
towel: w hanging loop = w a loop to hang it up | w zero twist = w yarn that is not twisted
    | w dobby border = w a woven stripe at the end
curtain: m heavy polyester = m thick polyester | m waffle cloth = m cloth with a waffle look
    | m clear vinyl = a see through
shower top: w metal grommets = w metal rings | w button holes = w holes like buttons
    | w snap liner = w a liner that snaps off
bath dry: a mildew resistant = t does not get moldy | w weighted hem = w weights at the bottom
    | w magnet bottom = w magnets at the bottom
curtain top: w rod pocket = w a sleeve for the rod | w grommet top = w rings at the top | w back tabs = w loops behind
light block: a thermal insulated = t keeps heat inside | a noise reducing = t makes the room quieter
    | w total darkness = t lets no light in
lamp base: w ceramic base = w a ceramic foot | w marble base = w a foot of marble | w brass base = w a brass foot
    | w wood base = w a wooden foot
lamp bulb: w led bulb = w led light | w edison bulb = w an old fashioned bulb | w three bulbs = w 3 bulbs
lamp switch: w touch control = t turns on by touch | w remote control = w a remote
    | w pull chain = w a chain to pull | w foot switch = w a switch for the foot
lamp port: w usb ports = t charges phones | w wireless charger = t charges without cable
    | w ac outlet = w a power socket
lamp move: w adjustable arm = w an arm that moves | w arc shape = w a bow over the seat | w tripod stand = w three legs
look: w mid century = a retro; a sixties style | w modern farmhouse = a country style
    | w industrial style = a factory look
    | w minimalist design = a simple; a minimal
assembly: a easy assemble = t is easy to put together; a easy to assemble
    | a fully assembled = t arrives in one piece; a already assembled
    | a tool free = t needs no tools
lamp power: a solar powered = t runs on sunlight | a battery operated = t works with batteries
    | a plug in = t plugs into the wall
light mode: w eight modes = w 8 modes | a fully dimmable = t can be dimmed | w timer function = w a timer
outdoor: a weather proof = t can stay outside all year | a fade resistant = t keeps its color in the sun
    | a rust proof = t does not rust
light shape: w globe bulbs = w round bulbs | w star shape = w little stars
    | w curtain shape = t hangs down like a curtain
bulb break: a shatter proof = t does not break | w spare bulbs = w extra bulbs | w linkable ends = t can be joined
wood: m solid wood = m real wood; m massive wood | m engineered wood = m pressed wood; m mdf
    | m reclaimed pine = m old pine boards
    | m bamboo board = m bamboo
table store: w storage drawer = w a drawer | w open shelf = w a shelf below | w lift top = w a top that lifts
leg style: w hairpin legs = w thin wire legs | w tapered legs = w legs that get thinner
    | w metal legs = w legs of metal | w turned legs = w round carved legs
surface: a scratch resistant = t does not scratch | w glass top = w a top of glass
    | w marble top = w a top that looks like marble
    | a wipe clean = t wipes down quickly
seat cover: m pu leather = m imitation leather | m tufted velvet = w buttons pressed in velvet
    | m linen fabric = m linen
    | m faux sheepskin = w fluffy fake sheepskin
seat fill: w dense foam = m heavy foam | w pocket springs = w springs in pockets | w feather filling = w feathers
chair feature: w swivel base = t turns round | w ottoman included = w a stool for the feet | w rocking base = t rocks
sofa feature: w storage chaise = w storage in the chaise | w cup holders = w places for cups
    | a pull out = t pulls out into a bed
frame: w steel frame = w a frame of steel | w hardwood frame = w a frame of hard wood
    | w aluminum frame = w a light metal frame
stool: w back rest = w something to lean on | w foot rest = w a bar for the feet
    | a height adjustable = t goes up and down
shelf: w five tiers = w 5 shelves | w adjustable shelves = w boards i can move | w corner fit = t fits a corner
    | w glass doors = w doors of glass
wall: a wall mounted = t hangs on the wall | w free standing = t stands by itself
    | w anchor kit = w parts to fix it to the wall
desk: w keyboard tray = w a tray for the keyboard | w cable tray = w a place for cables
    | w monitor riser = w a stand for the screen
handle style: w gold handles = w handles in gold | w leather pulls = w leather loops as handles
    | a handle free = w no handles
basket: m sea grass = m dried grass | m cotton rope = m rope | m wire mesh = m wire | m thick felt = m felt
basket grip: w leather handles = w leather grips | w rope handles = w grips of rope
    | w cutout handles = w holes as grips
fold: a foldable design = a collapsible; t folds flat | a stackable design = t stacks | w rigid walls = w stiff sides
lid: w bamboo lid = w a lid of bamboo | w fabric lid = w a cloth lid | a open top = w no lid
mirror edge: w beveled edge = w a slanted edge | w rope frame = w rope around it | a frameless design = w no frame
mirror light: w led backlight = w light behind it | a anti fog = t does not fog up | w fog timer = w a timer against fog
art frame: a ready hang = t is ready to hang; a ready to hang | a wood framed = w a wooden frame
    | w rolled canvas = t comes rolled up
art theme: w ocean theme = w the sea on it | w botanical theme = w plants on it
    | w abstract theme = w an abstract picture
    | w city skyline = w a city on it
art ink: w vivid ink = w bright colors | w textured gel = w a surface like brush strokes | w matte print = w no shine
clock noise: a non ticking = a silent; t makes no sound | w hourly chime = t chimes each hour
    | w loud alarm = w an alarm
clock face: w roman numerals = w roman numbers | w arabic numerals = w ordinary numbers
    | w moving gears = w gears i can see
pot: m glazed ceramic = m ceramic | m terracotta clay = m clay | m recycled plastic = m old plastic
    | m galvanized metal = m zinc
drain: w drainage holes = w holes below | w self watering = t waters itself | w drip saucer = w a saucer
pot feature: w plant stand = w a stand | w hanging hook = t can hang | w wheeled base = w wheels
umbrella: m olefin fabric = m olefin | m marine canvas = m canvas for boats | m polyester shade = m plain polyester
umbrella pole: w tilt button = t tilts | w wooden pole = w a pole of wood | w fiberglass ribs = w ribs of fiberglass
umbrella crank: w crank handle = w a crank | w pulley lift = w a rope and pulley | w push up = t is pushed up by hand
vent: w double vent = w two openings for the wind | w single vent = w one opening for the wind
    | w scalloped edge = w a wavy edge
"""

BRANDS = """
Ashcombe, Birch & Barrow, Casa Lindra, Dwellwright, Elmstead, Fernhollow, Grange Lane, Hearthby, Inglenook,
    Juna Home, Kilnwood,
Larkhouse, Mossfield, Nestling, Old Harbor, Plumstone, Quarry Road, Restwell, Sunniva, Thornbury, Umberly, Vale & Vine,
Woodrow Living, Yewtree, Zenhaus, HOMECRAVE, NESTIVO, LUXORIA, Furnova, Gardenette, Casa Añil
"""

FILLERS = """
Home Decor, for Bedroom, for Apartment, Housewarming Gift, Farmhouse, Rustic, Boho, for Small Spaces, for Entryway,
Decorative, for Couch, for Dorm, Space Saving, Elegant, for Patio, Heirloom Quality, Natural Look, Premium, for Balcony,
Upgraded, Hotel Collection
"""

BENEFITS = """
brings calm to a busy home; arrives carefully packed; adds a warm touch to any corner; solid enough for a lively family
; looks far more expensive than it was; easy to look after for years; a gift that new home owners remember
; saves space where you need it; matches light and dark walls alike; made by a workshop of twelve people
; tested in our own houses first; makes the place feel finished; a quiet hero of daily life
; wears in nicely instead of wearing out
"""

STORIES = """
Measure the place twice before you order, then enjoy the result for years.
All parts, screws and a clear drawing come in the box.
Every piece differs a little, as good pieces do.
Fresh from the box it may smell slightly for a day, please let it air.
Our studio sits near an old harbour and the colours come from there.
If a part is missing, write to us and it is in the mail the same day.
Please allow for one or two centimetres of difference because of manual measuring.
It was drawn for small flats, yet it feels at home in a large house as well.
Photos show items for decoration that are not included.
"""
