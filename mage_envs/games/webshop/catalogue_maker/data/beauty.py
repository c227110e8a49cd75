"""Words of the department beauty: types, attributes, brands and texts of sellers. `tables.py` documents the formats."""

NAME = "beauty"
ROOT = "Beauty & Personal Care"

TYPES = """
face moisturizer; one; Skin Care > Face > Moisturizers > Creams; volume, scent; 22
    free of, skin, skin effect, kind, natural, vitamin, texture, time
face serum; one; Skin Care > Face > Treatments > Serums; volume, pack; 26
    free of, skin, skin effect, kind, natural, vitamin, dropper
sheet mask; one; Skin Care > Face > Masks > Sheets; scent, pack; 15
    free of, skin, skin effect, kind, natural, mask cloth
facial cleanser; one; Skin Care > Face > Cleansers > Washes; volume, scent; 14
    free of, skin, skin effect, kind, natural, texture, foam
sunscreen lotion; one; Skin Care > Sun > Sunscreens > Body; volume, pack; 17
    free of, skin, spf, kind, texture, sun feature
body lotion; one; Skin Care > Body > Moisturizers > Lotions; volume, scent, pack; 16
    free of, skin, skin effect, kind, natural, texture, lasting
body scrub; one; Skin Care > Body > Scrubs > Sugar; volume, scent; 18
    free of, skin, scrub grain, kind, natural, jar
*eye cream; one; Skin Care > Eyes > Creams > Daily; volume, style; 27
    free of, skin, eye effect, kind, natural, vitamin, time
lip balm; one; Skin Care > Lips > Balms > Sticks; flavor tint, pack; 9
    free of, natural, lip feature, kind, spf, lasting
shampoo; mass; Hair Care > Wash > Shampoo > Daily; volume, scent; 17
    hair free, hair, hair effect, kind, natural, foam, salon
hair conditioner; one; Hair Care > Wash > Conditioner > Rinse Out; volume, scent; 17
    hair free, hair, hair effect, kind, natural, salon
hair mask; one; Hair Care > Treatments > Masks > Deep; volume, scent; 19
    hair free, hair, hair effect, kind, natural, jar, salon
hair oil; mass; Hair Care > Treatments > Oils > Leave In; volume, scent; 18
    hair, hair effect, kind, natural, dropper, lasting
*dry shampoo; mass; Hair Care > Wash > Shampoo > Waterless; volume, scent; 13
    hair free, hair, kind, spray, lasting, salon
hair extensions; plural; Hair Care > Extensions > Pieces > Clip In; hair color, hair length; 62
    hair origin, hair attach, hair cut, hair care, hair weight, hair wave
lace front wig; one; Hair Care > Extensions > Wigs > Lace; hair color, hair length; 98
    hair origin, lace, hair cut, hair care, hair weight, hair wave
hair dryer; one; Hair Care > Tools > Dryers > Hand Held; color, style; 46
    heat tech, cord, noise, attach, handle, speed
makeup brush set; one; Makeup > Tools > Brushes > Sets; color, style; 20
    bristle, kind, handle, brush case, shed, brush job
liquid foundation; one; Makeup > Face > Foundation > Liquid; shade, volume; 18
    free of, skin, coverage, kind, finish, lasting, spf
matte lipstick; one; Makeup > Lips > Lipstick > Matte; lip color, pack; 12
    free of, lip feature, kind, lasting, vitamin, finish
mascara; one; Makeup > Eyes > Mascara > Volume; lip style, pack; 11
    free of, lash, kind, lasting, remove, wand
eyeshadow palette; one; Makeup > Eyes > Eyeshadow > Palettes; lip style; 22
    free of, pigment, kind, lasting, finish, palette case
*electric toothbrush; one; Oral Care > Brushes > Electric > Sonic; color, pack; 43
    bristle stiffness, timer, brush charge, weather tight, teeth, travel case
whitening toothpaste; mass; Oral Care > Pastes > Whitening > Daily; flavor, pack; 10
    mouth free, teeth, breath, natural, mouth foam, gum
eau de parfum; one; Fragrance > Women > Perfume > Sprays; volume, scent; 48
    lasting, perfume style, kind, perfume bottle, free of, time
"""

GROUPS = """
free of: a paraben free = w no parabens; t has no parabens | a fragrance free = a unscented; w no perfume in it
    | a alcohol free = w no alcohol; t does not contain alcohol | a oil free = w no oil in it; a oilless
skin: f sensitive skin = f skin that reacts easily; t is gentle on delicate skin
    | f dry skin = f skin that is always dry
    | f oily skin = f skin that gets greasy; f a shiny face | f mature skin = f older skin; f aging skin
skin effect: a anti aging = t fights wrinkles; a age defying | w dark spots = f fading spots; t fades old marks
    | a deep hydrating = a very moisturizing; t hydrates deeply | w fine lines = t smooths little creases
eye effect: w dark circles = t brightens under the eyes | w puffy eyes = t calms swelling under the eyes
    | w crow feet = t smooths the corners of the eyes
kind: a cruelty free = t is not tested on animals; w no animal testing
    | a vegan formula = a vegan; w nothing from animals
    | a dermatologist tested = t was tested by skin doctors | a clinically proven = t was proven in trials
natural: m natural ingredients = a natural; m things from nature | w coconut oil = t contains oil of coconut
    | w tea tree = m tea tree extract | w shea butter = m shea
vitamin: w hyaluronic acid = m hyaluron | w vitamin c = m ascorbic acid; w c vitamins | w green tea = m tea leaf extract
    | w collagen peptides = m collagen
texture: a fast absorbing = t sinks in quickly | w whipped texture = a fluffy; a whipped up | w gel formula = a gel like
    | w rich cream = a thick and creamy
time: f night use = f bedtime; t works overnight | f day use = f the morning; f daytime
    | f all seasons = t works the whole year
dropper: w glass dropper = w a dropper of glass | w pump bottle = w a pump | w roll applicator = t rolls on
mask cloth: m bio cellulose = m plant cellulose | m bamboo charcoal = m charcoal from bamboo
    | m cotton sheet = m plain cotton
foam: a sulfate free = w no sulfates | w rich lather = t lathers a lot | a low foam = t barely foams
spf: w spf 30 = w sun factor thirty | w spf 50 = w sun factor fifty | w mineral zinc = w zinc against the sun
sun feature: a reef safe = t does not harm corals | a sweat proof = t stays on when i sweat
    | w sheer finish = t leaves no white cast
scrub grain: w sea salt = m salt from the sea | w brown sugar = m raw cane crystals | w coffee grounds = m ground coffee
jar: w glass jar = t comes in glass | w wide mouth = w a big opening | w travel tube = t comes in a small tube
lip feature: w plumping effect = t makes my lips look fuller | a highly moisturizing = t keeps lips soft
    | a kiss proof = t does not smear | w subtle shine = a slightly glossy
hair free: a color safe = a safe for dyed hair | a wheat free = a made without wheat | w salt free = w no salt
hair: f dry hair = f thirsty hair | f curly hair = f curls; f ringlets | f fine hair = f thin strands; f limp strands
    | f damaged hair = f broken ends; f hair hurt by heat
hair effect: w hair growth = t makes hair grow; t helps against thinning | w frizz control = t tames frizz; a anti frizz
    | w extra volume = t adds body | w split ends = t mends the tips
salon: w salon quality = a professional; a used by stylists | f color treated = f dyed strands
    | w keratin protein = m keratin
spray: w aerosol spray = w a spray can | w powder puff = w a puff | a residue free = t leaves no white dust
hair origin: m human hair = m real hair from people | m synthetic fiber = m fibers made in a lab
    | m remy strands = m remy
hair attach: w clip in = t clips in | w tape in = t sticks with tape | w halo wire = t sits on a thin wire
hair cut: w layered ends = a cut in layers | w blunt ends = a cut straight across
    | w side bangs = w a fringe to the side
hair care: a heat resistant = t survives a curling iron | a tangle free = t does not tangle
    | a pre bleached = a bleached already
hair weight: w double weft = a extra thick | w single weft = a thin and light | w high density = a very dense
hair wave: w body wave = a wavy | w silky straight = a perfectly straight | w deep curl = a very curly
lace: w transparent lace = w see through lace | w swiss lace = w lace from switzerland
    | w glueless cap = t needs no glue
heat tech: w ionic technology = t sends out ions | w ceramic coating = w ceramic parts
    | w infrared heat = t dries with infrared
cord: w long cord = w a cable that reaches far | w swivel cord = w a cable that turns
    | a cord free = a cordless; w no cable
noise: w low noise = a quiet; t does not make a racket | w auto shutoff = t turns itself off
    | w cool shot = w a cold air button
attach: w diffuser nozzle = w a diffuser for curls | w comb attachment = w a comb on the end
    | w styling concentrator = w a narrow tip
handle: w foldable handle = t folds | w wooden handle = w a handle of wood | w rubber grip = w a rubbery hold
speed: w two speeds = w 2 speeds | w variable speed = w a dial for the speed | w turbo mode = w a turbo button
bristle: w synthetic bristles = w bristles that are man made | w goat hair = w natural goat bristles
    | w silicone tips = w tips of silicone
brush case: w storage pouch = w a pouch | w magnetic stand = w a stand with magnets | w travel roll = w a roll up wrap
shed: a shed free = t loses no hairs | a easy clean = a easy to clean; t washes without effort
    | w antibacterial coating = t keeps germs away
brush job: f powder blending = f loose powders | f precise contour = f contouring | f cream products = f creamy makeup
coverage: w full cover = t hides everything | w medium cover = t hides a little | w buildable layers = t can be layered
finish: w matte finish = a matte; w no shine | w dewy finish = a dewy; t glows | w satin finish = a softly shiny
    | w shimmer finish = a shimmery; a glittery
lasting: a long lasting = t lasts all day; t lasts long | a water proof = t survives water; t stays on in the rain
    | a transfer proof = t does not rub off | a travel size = a small enough to fly with
lash: w lash lengthening = t makes lashes longer | w curl lift = t curls my lashes
    | w thick volume = t makes lashes thick
remove: a easy remove = t comes off without rubbing | a smudge proof = t does not smudge
    | a flake free = t does not flake
wand: w hourglass wand = w a brush shaped like an hourglass | w micro brush = w a tiny wand
    | w rubber bristles = w a rubber wand
pigment: a highly pigmented = t shows strong color | w neutral tones = w nudes and browns
    | w smoky tones = w dark smoky shades
palette case: w lid mirror = w a mirror in the lid | w slim case = w a thin case
    | w refillable pans = w pans i can replace
bristle stiffness: w soft bristles = w gentle bristles | w firm bristles = w hard bristles
    | w charcoal bristles = w black charcoal bristles
timer: w smart timer = t tells me when two minutes are over | w pressure sensor = t warns if i press too hard
    | w bluetooth tracking = t talks to my phone
brush charge: w wireless charging = t charges on a stand | w battery powered = t runs on batteries
    | w usb rechargeable = t charges by usb
weather tight: a fully washable = t can be rinsed all over | a shower safe = t can be used in the shower
    | a leak proof = t never leaks
teeth: w teeth whitening = t whitens my teeth | w plaque removal = t removes plaque
    | w sensitive teeth = t does not hurt my teeth
    | w enamel repair = t rebuilds enamel
travel case: w hard case = w a hard box | w brush holder = w a holder | w head cover = w a cap for the head
mouth free: a fluoride free = w no fluoride | w gentle fluoride = w a bit of fluoride | a peroxide free = w no peroxide
breath: w fresh breath = t freshens my breath | w dry mouth = t helps when my mouth is dry
    | w bad breath = t fights odor
mouth foam: a sls free = w no sls | w mild foam = t foams gently | w gel stripe = a striped
gum: w gum care = t looks after my gums | w tartar control = t stops tartar
    | w cavity protection = t protects from holes
perfume style: w floral notes = a flowery | w woody notes = a smelling of woods | w citrus notes = a smelling of lemons
    | w musky notes = a musky
perfume bottle: w spray bottle = t sprays | w refillable flask = t can be filled again
    | w gift box = t comes in a box for giving
"""

BRANDS = """
Aurelle, Bonne Mine, Cerisette, Dewdrop Lab, Ecla Botanica, Fleurion, Glowsmith, Halcyon Skin, Iriswood, Jolie Terre,
    Kindroot,
Luminette, Maison Orlo, Nectaria, Olivane, PurePetal, Quiet Bloom, Rivière Bleue, SILKARA, Terravie, Ultrabelle,
    Velvetine,
Willowmist, Xanthe, Youthwell, Zinnia & Co, BEAUTRIX, DERMALIX, Hairloom, Mintwell
"""

FILLERS = """
for Women, for Men and Women, Skin Care, Self Care Gift, Spa Quality, Beauty Gift, Daily Routine, Professional Results,
Clean Beauty, Gift for Mom, Made in USA, Gentle, Nourishing, Radiant Look, Bestseller, Trusted Care, Korean Beauty,
    Unisex,
Everyday Glow, Dermatology Inspired
"""

BENEFITS = """
leaves you looking rested and fresh; you will notice the difference within a few weeks; pleasant to use every single day
; a little goes a long way; developed by people who love good care; simple enough for a rushed morning
; made in small batches; works well together with the rest of our range; loved by customers around the world
; turns your bathroom into a spa; no fuss and no strange smell; suits teens and grown ups alike
; feels luxurious yet costs less than you think; ideal as a small present
"""

STORIES = """
We believe that good care needs neither a laboratory coat nor a fortune.
Test a small amount on the inside of your arm before first use.
Store in a cool place away from direct sun and close the lid well.
Our formula took two years and more than sixty trials before we were happy.
If it is not for you, send it back within thirty days, no questions asked.
The packaging can be recycled and is printed with plant inks.
Apply in the evening on clean skin or hair and let it do its work.
Many of our customers come back for a second and a third order.
Design of the label may differ from the picture while we change to the new look.
"""
