"""Words of the department fashion: types, attributes, brands and texts of sellers.

`tables.py` documents the formats.
"""

NAME = "fashion"
ROOT = "Clothing, Shoes & Jewelry"

TYPES = """
women's running shoes; pair; Women > Shoes > Athletic > Running; color, shoe size; 58
    sole, shoe closure, insole, grip, toe, upper, shoe weight, occasion
women's sandals; pair; Women > Shoes > Sandals > Flats; color, shoe size; 34
    sole, strap, insole, grip, open toe, upper, heel, occasion
women's ankle boots; pair; Women > Shoes > Boots > Ankle; color, shoe size; 66
    sole, shoe closure, insole, toe, upper, heel, lining, occasion
women's slippers; pair; Women > Shoes > Slippers > House; color, shoe size; 24
    sole, insole, grip, open toe, lining, care, occasion
women's maxi dress; one; Women > Clothing > Dresses > Casual; color, letter size; 36
    sleeve, neck, fabric, care, print, waist, fit, occasion, pocket
women's cocktail dress; one; Women > Clothing > Dresses > Cocktail; color, letter size; 52
    sleeve, neck, fabric, care, trim, back, fit, dress lining
women's blouse; one; Women > Clothing > Tops > Blouses; color, letter size; 27
    sleeve, neck, fabric, care, print, fit, trim, occasion
women's tunic top; one; Women > Clothing > Tops > Tunics; color, letter size; 25
    sleeve, neck, fabric, care, print, fit, hem, occasion
women's graphic t-shirt; one; Women > Clothing > Tops > Tees; color, letter size; 19
    sleeve, neck, cloth, care, fit, tee detail, hem
women's cardigan; one; Women > Clothing > Sweaters > Cardigans; color, letter size; 38
    sleeve, front, knit, care, fit, pocket, hem, occasion
women's leggings; plural; Women > Clothing > Active > Leggings; color, letter size, style; 24
    waist, stretch, care, active, pocket, length, opacity
women's skinny jeans; plural; Women > Clothing > Jeans > Skinny; color, waist size; 46
    waist, stretch, care, wash, pocket, length, occasion
women's wide leg pants; plural; Women > Clothing > Pants > Casual; color, letter size; 33
    waist, fabric, care, pocket, length, print, occasion
women's bikini set; one; Women > Clothing > Swim > Bikinis; color, letter size; 29
    swim cut, swim support, care, print, swim tie, quick dry
women's sports bra; one; Women > Clothing > Active > Bras; color, letter size, pack; 23
    swim support, back, care, active, stretch, bra closure
*women's pajama set; one; Women > Clothing > Sleepwear > Sets; color, letter size; 31
    sleeve, neck, cloth, care, print, waist, sleep feature
*women's rain jacket; one; Women > Clothing > Coats > Rainwear; color, letter size; 57
    front, weather, hood, care, pocket, lining, fit
men's dress shirt; one; Men > Clothing > Shirts > Dress; color, collar size; 37
    sleeve, collar, cloth, care, fit, wrinkle, pocket, occasion
men's polo shirt; one; Men > Clothing > Shirts > Polos; color, letter size; 26
    sleeve, collar, cloth, care, fit, active, tee detail
men's henley shirt; one; Men > Clothing > Shirts > Henleys; color, letter size; 24
    sleeve, front, cloth, care, fit, tee detail, hem
men's hoodie; one; Men > Clothing > Hoodies > Pullover; color, letter size; 35
    front, hood, knit, care, fit, pocket, print
men's cargo shorts; plural; Men > Clothing > Shorts > Cargo; color, waist size; 29
    waist, stretch, care, pocket, length, fit, wash
men's chino pants; plural; Men > Clothing > Pants > Chinos; color, waist size; 39
    waist, stretch, care, pocket, wrinkle, leg, occasion
men's boxer briefs; plural; Men > Clothing > Underwear > Briefs; color, letter size, pack; 25
    waist, cloth, care, active, tee detail, stretch
men's puffer jacket; one; Men > Clothing > Coats > Down; color, letter size; 74
    front, fill, hood, weather, care, pocket, fit
men's swim trunks; plural; Men > Clothing > Swim > Trunks; color, letter size; 26
    waist, swim lining, care, pocket, print, quick dry, length
men's hiking boots; pair; Men > Shoes > Outdoor > Hiking; color, shoe size; 83
    sole, shoe closure, insole, grip, upper, toe, weather, shoe weight
men's loafers; pair; Men > Shoes > Loafers > Casual; color, shoe size; 55
    sole, insole, upper, toe, lining, shoe weight, occasion
*men's pajama pants; plural; Men > Clothing > Sleepwear > Bottoms; color, letter size; 24
    waist, cloth, care, pocket, print, sleep feature
girls' party dress; one; Girls > Clothing > Dresses > Special Occasion; color, kid size; 32
    sleeve, neck, fabric, care, trim, back, dress lining
boys' graphic t-shirt; one; Boys > Clothing > Tops > Tees; color, kid size, pack; 15
    sleeve, neck, cloth, care, tee detail, fit
*women's crossbody bag; one; Luggage & Travel > Handbags > Shoulder > Crossbody; color, style; 33
    bag material, bag closure, bag strap, bag pocket, dress lining, occasion
travel backpack; one; Luggage & Travel > Backpacks > Daypacks > Laptop; color, style; 44
    bag material, bag closure, bag strap, bag pocket, weather, bag feature
baseball cap; one; Accessories > Hats > Caps > Baseball; color; 19
    cap fit, cap top, care, weather, cloth, cap brim
crew socks; plural; Accessories > Socks > Casual > Crew; color, letter size, pack; 17
    sock sole, sock toe, care, active, knit, sock grip
"""

GROUPS = """
care: a machine wash = a machine washable; t can go in the washing machine
    | a hand wash = a hand washable; t gets washed by hand
    | a dry clean = a dry clean only; t goes to the dry cleaner
sole: w rubber sole = w a rubber outsole; w soles of rubber
    | w synthetic sole = w a synthetic outsole; w a man made sole
    | w leather sole = w a leather outsole; w soles of real leather
    | w ethylene vinyl = m eva foam; w an eva sole
shoe closure: a lace up = w laces; t lace up at the front
    | a step in = t need no laces; a laceless
    | w zipper closure = t zip up; w a side zip
    | w hook loop = w velcro straps; t close with velcro
strap: w ankle strap = t fasten around the ankle | w slingback strap = a slingback | w toe loop = w a ring for the toe
insole: w memory foam = m cushy memory foam; w foam that remembers my foot
    | w arch support = t support my arches; w good arch cushioning
    | w removable insole = w insoles i can take out
    | w cushioned footbed = w a padded footbed; a soft underfoot
grip: a non slip = a slip resistant; t won't slide on wet floors
    | a shock absorbing = t absorb shock; t soften each landing
    | w deep tread = w a chunky tread; w deep lugs
toe: w closed toe = t cover the toes | w round toe = a round toed | w pointed toe = t come to a point
    | w steel toe = w a toe of steel
open toe: w open toe = t leave the toes free | w peep toe = w a small opening at the toe
    | w wrapped toe = w toes wrapped all round
upper: m faux leather = m vegan leather; m imitation leather
    | m genuine leather = m real leather; m authentic hide
    | m breathable mesh = w an airy mesh upper; m mesh that breathes
    | m soft suede = m suede; w a suede finish
heel: w low heel = w a small heel | w chunky heel = w a thick block heel | w wedge heel = w a wedge
    | w kitten heel = w a dainty heel
shoe weight: a light weight = a very light; t hardly weigh anything | a heavy duty = a rugged; t take hard use
    | a flexible build = a bendy; t flex with my foot
lining: w fleece lined = w a cozy fleece inside; w fleece lining
    | w faux fur = w fake fur; w fuzzy fur that is not real
    | w satin lining = w a silky satin inside | w unlined interior = w no lining
dress lining: w satin lining = w a silky satin inside | w mesh lining = w netting inside
    | w unlined interior = w no lining
occasion: f daily wear = f every day use; t can be worn every day
    | f office work = f the office; f working days
    | f special occasion = f a big event; f weddings and parties
    | f beach vacation = f a trip to the beach; f seaside holidays
sleeve: w long sleeve = w sleeves down to the wrist; a long sleeved
    | w short sleeve = a short sleeved; w sleeves above the elbow
    | w bell sleeve = w flared sleeves; w sleeves that flare out
    | a sleeveless cut = w no sleeves; a sleeveless
neck: w crew neck = w a round neckline | w v neck = w a neckline shaped like a v
    | w mock neck = w a low turtleneck | w boat neck = w a wide bateau neckline
fabric: m cotton blend = m mostly cotton | m polyester spandex = m stretchy polyester
    | m soft rayon = m rayon; w the drape of rayon | m pure linen = m linen
cloth: m organic cotton = m cotton grown without chemicals | m combed cotton = m cotton that has been combed smooth
    | m bamboo viscose = m bamboo | m polyester cotton = m a poly cotton mix
knit: m merino wool = m wool from merino sheep | m cable knit = w a cable pattern in the knit
    | m french terry = m terry loops | m acrylic yarn = m acrylic
print: w floral print = a flowery; w flowers on it | w solid color = a plain; w no pattern
    | w animal print = w a wild animal pattern | w tie dye = a tie dyed
waist: w high waist = a high waisted; t sits above the hips | w low rise = a low cut at the hips
    | w elastic waist = w a stretchy waistband; t needs no belt
    | w drawstring closure = w a drawstring; t ties at the waist
fit: a slim fit = a slim; t sits close to the body | a loose fit = a baggy; a roomy
    | a regular fit = a not too tight and not too loose
    | a plus size = a made in extended sizes; t comes in bigger sizes
pocket: w side pockets = w pockets at the sides; w a pocket on each side | w zippered pocket = w a pocket that zips
    | w hidden pocket = w a secret pocket | w no pockets = t has no pocket at all
trim: w lace trim = w lace on the edges | w ruffle detail = a ruffled; w frills | w sequin finish = a sparkly; w sequins
back: w open back = a backless | w racer back = w straps that meet between the shoulders | w lace back = w lace behind
hem: w curved hem = w a rounded bottom edge | w asymmetrical hem = a longer on one side
    | w ribbed hem = w ribbing at the bottom
tee detail: a tag free = t has no itchy label | w reinforced seams = w extra strong stitching
    | a pre shrunk = t won't shrink
front: w button closure = t buttons up; w buttons down the front | w full zip = t zips all the way
    | w open front = t stays open at the front | w pullover style = t goes on over the head
stretch: w stretch fabric = a stretchy; t moves with me | w compression fit = a compressive; t holds everything tight
    | w sturdy weave = m stiff fabric with no give
active: a moisture wicking = a sweat wicking; t keeps me dry when i sweat
    | a odor control = t does not smell after a workout
    | w cooling technology = t keeps me cool
length: a full length = t reaches the ankle | a cropped length = a cropped; t ends mid calf
    | a knee length = t ends at the knee
opacity: a squat proof = t is not see through | a buttery soft = a silky to the touch
    | w mesh panels = w see through mesh parts
wash: w distressed finish = a ripped; w a worn look | w dark wash = m dark denim | w acid wash = w a bleached look
swim cut: w brazilian cut = a cheeky | w full coverage = t covers everything | w boy short = w shorts for the bottom
swim support: w underwire support = a underwired | w removable pads = w pads i can take out | a wire free = w no wires
swim tie: w halter neck = t ties behind the neck | w tie side = w ties at the hips | w bandeau top = a strapless
quick dry: a quick drying = t dries fast; a fast drying | w uv protection = t blocks the sun; w sun protection
    | a chlorine resistant = t holds up in pool water
bra closure: w hook closure = w hooks at the back | w front zipper = t zips at the front | a pull over = t has no clasp
sleep feature: a itch free = t does not itch | w contrast piping = w piped edges | w satin touch = t feels like satin
weather: a water resistant = t keeps light rain out | a wind proof = t blocks wind; t stops the wind
    | w reflective strips = w reflectors; t can be seen at night | w sun shade = t shades me from sun
hood: w detachable hood = w a hood that comes off | w adjustable hood = w a hood i can tighten
    | a hoodless design = w no hood
collar: w spread collar = w a wide collar | w button down = w buttons on the collar
    | w band collar = w a stand up collar
wrinkle: a wrinkle free = t never needs ironing; a non iron | w crisp finish = t looks freshly pressed
    | w washed texture = t looks a bit rumpled
leg: w straight leg = w legs cut straight | w tapered leg = t gets narrow at the ankle | w pleated front = w pleats
fill: w down alternative = w synthetic down | w goose down = w real goose feathers
    | w recycled fill = w filling from old bottles
swim lining: w mesh liner = w netting inside | w compression liner = w tight inner shorts | a liner free = w no liner
bag material: m vegan material = m animal free stuff | m waxed canvas = m canvas with a wax coat
    | m ripstop nylon = m nylon that will not tear | m pebbled leather = m grained leather
bag closure: w magnetic snap = t snaps shut with a magnet | w roll top = t rolls closed | w double zipper = w two zips
bag strap: w adjustable strap = w a strap i can shorten | w chain strap = w a metal chain
    | w padded straps = w soft shoulder straps
bag pocket: w laptop sleeve = w room for my laptop | w bottle holder = w a place for a water bottle
    | w card slots = w room for cards
bag feature: w usb port = t lets me charge my phone | w luggage strap = t slides onto my suitcase
    | w hidden lock = w a theft lock
cap fit: w adjustable buckle = w a buckle at the back | w snap back = w snaps at the back | a fitted crown = a fitted
cap top: w embroidered logo = w embroidery | w vented crown = w holes that let air in | w blank front = w nothing on it
cap brim: w curved brim = w a bent brim | w flat brim = w a straight brim | w long bill = w an extra long bill
sock sole: w cushioned sole = w padding under the foot | w thin sole = a thin at the bottom
    | w terry sole = w loops under the foot
sock toe: w seamless toe = w no seam at the toes | w split toe = w a place for the big toe
    | w contrast toe = w toes in another color
sock grip: w grippy dots = w rubber dots below | a stay up = t never slides down
    | w loose cuff = w cuffs that do not squeeze
"""

BRANDS = """
Almerra, Bryce & Lowe, Calloway Lane, Dunmere, Ellaroo, Fennick, Gossamer Hill, Harlowe, Innisvale, Juniper Row,
    Kestrelle,
Lumareen, Marlowick, Nordvane, Oakhurst Co, Pallisade, Quillan, Rosamund Bay, Sorrelli Park, Tamsin Grey, Umbrelle,
Verandah, Westerling, Yarrowe, Zephyrine, Brantfield, Cordova Street, Delphine Ray, Eastmoor, Foxglen, LOVARA, TRENDIQ,
VIVIAR, MODENZA, KEYRUN, STRIDEON
"""

FILLERS = """
for Summer, for Fall Winter, Casual, Trendy, Stylish, Gift Idea, Gift for Friends, Vacation Outfit, Fashion 2021, Comfy,
Classic Look, Everyday Basics, Holiday Outfits, Streetwear, Soft, Going Out, Vintage, Cute, Outdoor, Travel, Gym,
New Arrival, Weekend, Modern
"""

BENEFITS = """
keeps you comfortable from morning to night; pairs easily with what you already own; holds its shape after many wears
; feels good against the skin; made for long days on your feet; a small detail that makes a big difference
; looks sharp without trying too hard; lets you move the way you want; ready for work and for the weekend
; you will reach for it again and again; gives a flattering silhouette; a must have for every closet
; suits all seasons; dress it up or keep it simple; thoughtful stitching all over
"""

STORIES = """
We started as a family workshop and still check every seam by eye.
Please compare the size chart in the pictures with your own measures before you order.
Because of light and screens the shade you receive may look slightly different.
If anything is wrong with your order, write to us and we will make it right within a day.
It packs flat in a suitcase and is ready to go when you are.
Wear it with boots in the cold months and with bare ankles when the sun comes out.
Our designers wanted one piece that works from breakfast to a late dinner.
A nice present for a birthday, an anniversary or simply for yourself.
Package includes one item only, other things in the photos are not part of it.
"""
